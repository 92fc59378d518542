/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function Pc(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function rn(t){
return new Error(`cudalens payload: ${t}. Save the trace again with the same version of cudalens.`)}async function ae(t){if(t.byteLength<12||String.fromCharCode(
...t.subarray(0,4))!=="CLP1")throw rn(`found ${t.byteLength} bytes that do not begin with CLP1`);let e=new DataView(t.buffer,t.byteOffset,t.byteLength),n=e.getUint32(
4,!0)===1,o=([a,c])=>{let i=a+c;if(i>t.byteLength)throw rn(`it ends at byte ${t.byteLength}, ${i} expected`);let l=t.subarray(a,i);return n?Pc(l):l},r=e.getUint32(
8,!0),s=JSON.parse(new TextDecoder().decode(await o([12,r])));if(s.version!==1)throw rn(`found version ${s.version}, expected 1`);return{header:s,places:Hc(s,12+
r),read:o}}function Hc(t,e){let n=new Map,o=e;for(let[r,s]of Object.entries(t.columns)){let a=[];for(let c of"text"in s?[s.text]:s.planes)a.push(c<0?c:[o,c]),c>
0&&(o+=c);n.set(r,a)}return n}async function Ao({header:t,places:e,read:n},o){let{n:r,signed:s}=t.columns[o],a=e.get(o)??[],c=await Promise.all(a.map(i=>typeof i==
"number"?-1-i:n(i)));return{n:r,signed:s,planes:c}}async function B(t,e){let{n,signed:o,planes:r}=await Ao(t,e);if(r.length>4||o&&r.length===4)return Fc(r,n,o);
let s=new Uint32Array(n);if(r.forEach((c,i)=>{if(typeof c=="number"){if(c)for(let l=0;l<n;l++)s[l]|=c<<8*i}else if(i===0)for(let l=0;l<n;l++)s[l]=c[l];else for(let l=0;l<
n;l++)s[l]|=c[l]<<8*i}),!o)return s;let a=new Int32Array(s.buffer);for(let c=0;c<n;c++)a[c]=s[c]>>>1^-(s[c]&1);return a}function Fc(t,e,n){let o=new Float64Array(
e),r=(s,a)=>{let c=t[s]??0;return typeof c=="number"?c:c[a]};for(let s=0;s<e;s++){let a=(r(0,s)|r(1,s)<<8|r(2,s)<<16|r(3,s)<<24)>>>0,c=(r(4,s)|r(5,s)<<8|r(6,s)<<
16|r(7,s)<<24)>>>0,i=a&1,l=(a>>>1|(c&1)<<31)>>>0;if(!n)o[s]=c*4294967296+a;else{let f=(c>>>1)*4294967296+l;o[s]=i?-f-1:f}}return o}async function So(t,e){let{n,
signed:o,planes:r}=await Ao(t,e),s=new BigUint64Array(n),a=new Uint8Array(s.buffer);if(r.forEach((c,i)=>{for(let l=0;l<n;l++)a[8*l+i]=typeof c=="number"?c:c[l]}),
o)for(let c=0;c<n;c++)s[c]=s[c]>>1n^BigInt.asUintN(64,-(s[c]&1n));return s}async function nt({places:t,read:e},n){let[o]=t.get(n);return JSON.parse(new TextDecoder().
decode(await e(o)))}async function To(t){let{devices:e,actions:n}=t.header.memory,o=["ts","device","action","bytes","allocated_bytes","reserved_bytes","event"],r=await Promise.all(
o.map(d=>B(t,`mem.${d}`))),[s,a,c,i,l,f,u]=r.map(d=>Float64Array.from(d));for(let d=1;d<s.length;d++)s[d]+=s[d-1],u[d]+=u[d-1];for(let d of[l,f])Bc(d,a,e.length);
return e.map((d,p)=>{let g=[...a.keys()].filter(w=>a[w]===p),m=w=>Float64Array.from(g,y=>w[y]);return{label:d,actions:n,ts:m(s),bytes:m(i),allocated:m(l),reserved:m(
f),action:m(c),event:m(u)}})}function Bc(t,e,n){let o=new Float64Array(n);for(let r=0;r<t.length;r++){o[e[r]]+=t[r];let s=o[e[r]];t[r]=s===0?Number.NaN:s-1}}async function Eo(t){
let{devices:e,gauges:n,reasons:o}=t.header.metrics;return Promise.all(e.map((r,s)=>zc(t,n,{label:r,k:s,reasons:o})))}async function zc(t,e,{label:n,k:o,reasons:r}){
let s=["ts","slowed_by",...e.map(({column:u})=>u)],[a,c,...i]=await Promise.all(s.map(u=>B(t,`met.${o}.${u}`))),l=Float64Array.from(a);for(let u=1;u<l.length;u++)
l[u]+=l[u-1];let f=e.map(({scale:u},d)=>Float64Array.from(i[d],p=>p===0?Number.NaN:(p-1)/u));return{label:n,ts:l,slowed:c,reasons:r,values:Object.fromEntries(e.
map(({column:u},d)=>[u,f[d]]))}}async function Oo(t,e){for(let{name:n,coding:o}of t.header.details)e.set(n,await(o==="dictionary"?Dc(t,n):Uc(t,n)))}async function Dc(t,e){
let[n,o]=await Promise.all([B(t,`${e}.codes`),nt(t,`${e}.values`)]);return r=>n[r]?o[n[r]-1]:null}async function Uc(t,e){let[n,o]=await Promise.all([B(t,`${e}.k\
nown`),So(t,`${e}.steps`)]);for(let s=1;s<o.length;s++)o[s]+=o[s-1];let r=new Uint32Array(n.length);for(let s=0,a=0;s<n.length;s++)r[s]=n[s]?++a:0;return s=>r[s]?
String(BigInt.asIntN(64,o[r[s]-1])):null}var L={instant:1,folded:2,outside:4,launched:8,waiting:16};function $o(t,e,n,o,r){let s=new Float64Array(e),a=new Float64Array(e),c=[],i=[],l=()=>{let u=c.pop(),
d=i[c.length+1],p=(d<0?s[u]:d)+r[u];a[u]=p-s[u],i[c.length]=p},f=0;for(let u of t){i[0]=0;for(let d=f+u.count;f<d;f++){for(let m=n[f];m>0;m--)l();let p=c.length,
g=i[p];s[f]=(g<0?s[c[p-1]]:g)+o[f],c.push(f),i[p+1]=-1}for(;c.length;)l()}return{start:s,dur:a}}function Co({n:t,start:e,dur:n,flags:o,header:r}){let s=n.slice(),
a=new Int32Array(t).fill(-1),c=new Uint16Array(t),i=new Int32Array(t+1),l=0;for(let f of r.lanes){let u=l+f.count;if(f.kind==="device"){l=u;continue}let d=0;for(;l<
u;l++){if(o[l]&L.outside)continue;let p=Math.max(e[l]+n[l],e[l]+1);for(;d&&e[i[d-1]]+n[i[d-1]]<p;)d--;d&&(a[l]=i[d-1],s[a[l]]-=n[l],c[l]=d),i[d++]=l}}return{own:s,
parent:a,depth:c}}function _o(t,e,n,o,r){let s=new Int32Array(t).fill(-1),a=new Set(o),c=[];for(let i=0;i<t;i++)a.has(n[i])&&c.push(i);for(let i=0,l=0,f=-1;i<t;i++)
e[i]&L.launched&&(f+=r[l++]+1,s[i]=c[f]);return s}function Lo({start:t,dur:e,header:n,n:o},r,s){let a=Wc(n.lanes),c=n.first_row,i=new Map,l=new Map;for(let d=0,p=0;d<r.length;d++)p+=r[d],i.set(p,p+s[d]),l.set(p+
s[d],p);let f=d=>a.reduce((p,{from:g,to:m})=>p+sn(g,m,w=>t[w]>=d)-g,0),u=d=>{let p=Gc(d,t,a,f),g=[];for(let{from:m,to:w}of a)for(let y=sn(m,w,x=>t[x]>=p);y<w&&t[y]===
p;y++)g.push(y);return g.sort((m,w)=>e[w]-e[m])[d-f(p)]};return{rowOf(d){let p=a.findIndex(({to:m})=>d<m),g=d-a[p].from;return a.forEach(({from:m,to:w},y)=>{if(y===
p)return;g+=sn(m,w,b=>t[b]>t[d]||t[b]===t[d]&&(y<p?e[b]<e[d]:e[b]<=e[d]))-m}),c+(i.get(g)??g)},eventOf(d){let p=d-c;return Number.isInteger(p)&&p>=0&&p<o?u(l.get(
p)??p):-1}}}function Wc(t){let e=0;return t.map(({count:n})=>(e+=n,{from:e-n,to:e}))}function sn(t,e,n){let[o,r]=[t,e];for(;o<r;){let s=o+r>>1;n(s)?r=s:o=s+1}return o}
function Gc(t,e,n,o){let r=n.filter(({from:c,to:i})=>i>c),s=Math.min(...r.map(({from:c})=>e[c])),a=Math.max(...r.map(({to:c})=>e[c-1]))+1;for(;a-s>1;){let c=Math.
floor((s+a)/2);o(c)<=t?s=c:a=c}return s}function j(t,e){return t.short[e]??t.names[e]}async function Io(t){let e=await ae(t),[n,o]=await Promise.all([Kc(e),nt(e,"names")]),r={...e.header,names:o},{n:s,
lanes:a}=r,c=Uint8Array.from(n.flags),i={header:r,n:s,flags:c,...$o(a,s,n.closed,n.gap,n.tail)},{own:l,parent:f,depth:u}=Co(i);Vc(l,n.self_at,n.self_off);let d=await To(
e),p=await Eo(e),g=new Map,m=new Promise(w=>setTimeout(w,0)).then(()=>Oo(e,g));return m.catch(()=>{}),{...i,...Xc(r,n),lane:jc(a,s),self:l,parent:f,depth:u,launch:_o(
s,c,n.kind,n.launchers,n.launch),...Lo(i,n.row_at,n.row_off),memory:d,metrics:p,detail:w=>Object.fromEntries([...g].map(([y,x])=>[y,x(w)])),detailOf:w=>g.get(w)??
(()=>null),detailsReady:m}}var Ro=["closed","gap","tail","kind","kind_name","kind_cat","flags","launch","launchers","self_at","self_off","row_at","row_off"];async function Kc(t){
let e=await Promise.all(Ro.map(n=>B(t,n)));return Object.fromEntries(Ro.map((n,o)=>[n,e[o]]))}function Xc({n:t,cats:e},{kind:n,kind_name:o,kind_cat:r}){let s=new Uint32Array(
t),a=e.length>256?new Uint16Array(t):new Uint8Array(t);for(let c=0;c<t;c++)s[c]=o[n[c]],a[c]=r[n[c]];return{name:s,cat:a}}function jc(t,e){let n=t.length>65536?
new Uint32Array(e):new Uint16Array(e),o=0;return t.forEach(({count:r},s)=>{n.fill(s,o,o+r),o+=r}),n}function Vc(t,e,n){let o=0;for(let r=0;r<e.length;r++)o+=e[r],
t[o]+=n[r]}var an="http://www.w3.org/2000/svg";function h(t,e={},...n){let o=document.createElement(t);for(let[r,s]of Object.entries(e))s==null||s===!1||(typeof s=="functi\
on"?o.addEventListener("click",s):o.setAttribute(r,s===!0?"":String(s)));return o.append(...n.filter(r=>r!=null)),o}function z(t,e={},...n){let o=document.createElementNS(
an,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,String(s));return o.append(...n),o}var qc={"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"};function ce(t){
return t.replace(/[&<>"']/g,e=>qc[e])}function No(t,e){return new Promise(n=>{let o=()=>{s.disconnect(),removeEventListener("beforeprint",r)},r=()=>{o(),n()},s=new IntersectionObserver(
a=>a.some(c=>c.isIntersecting)&&r(),{rootMargin:"200px"});s.observe(t),addEventListener("beforeprint",r),e.push(o)})}function N(t,e){let n=t.getContext("2d",e);
if(n===null)throw new Error("this browser cannot draw on a canvas");return n}function R(t,e,n){return[...t.querySelectorAll(e)].filter(o=>o instanceof n)}function ft(t,e,n,o=0){
if(t.measureText(e).width<=n)return e;for(let r=Math.min(e.length-1,Math.floor(n/3));r>2;r--){let s=Math.floor(r*o),a=`${e.slice(0,r-s)}\u2026${e.slice(e.length-
s)}`;if(t.measureText(a).width<=n)return a}return""}function Po(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var Yc=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]],Zc=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"K\
iB"]];function M(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${M(-t)}`;if(t>=1195e8){let e=Math.round(t/1e9);return`${Math.floor(e/60)} min ${e%60} \
s`}for(let[e,n]of Yc)if(t>=.9995*e)return`${Po(t/e)} ${n}`;return t>=.9995||t===0?`${t.toFixed(0)} ns`:`${Number(t.toPrecision(2))} ns`}function v(t){if(t==null||
Number.isNaN(t))return"-";if(t<0)return`-${v(-t)}`;for(let[e,n]of Zc)if(t>=.9995*e)return`${Po(t/e)} ${n}`;return`${t.toFixed(0)} B`}function P(t){return t==null||
Number.isNaN(t)?"-":t>0&&t<.1?"<0.1 %":t<9.95?`${t.toFixed(1)} %`:`${t.toFixed(0)} %`}function C(t){return t.toLocaleString("en-US")}function _(t,e){return`${C(
t)} ${e}${t===1?"":"s"}`}var ie=class extends Error{constructor(){super("the kernel was restarted; run the cell again")}};function le(){if(matchMedia("print").matches)return"light";let{jpThemeLight:t,vscodeThemeKind:e}=document.body.dataset;if(t!==void 0)return t==="false"?"dark":"\
light";if(e!==void 0)return e.includes("light")?"light":"dark";let n=document.documentElement.dataset.theme;return n==="dark"||n==="light"?n:matchMedia("(prefer\
s-color-scheme: dark)").matches?"dark":"light"}function Ho(t){let e=le(),n=()=>{let a=le();a!==e&&(e=a,t(a))},o=new MutationObserver(n),r={attributes:!0,attributeFilter:[
"data-jp-theme-light","data-vscode-theme-kind","data-theme"]};o.observe(document.body,r),o.observe(document.documentElement,r);let s=[matchMedia("(prefers-color\
-scheme: dark)"),matchMedia("print")];for(let a of s)a.addEventListener("change",n);return()=>{o.disconnect();for(let a of s)a.removeEventListener("change",n)}}function V(t){for(;;){let{done:e,value:n}=t.next();if(e)return n}}function Fo(t){for(let e of t){let n=e();n&&V(n)}}async function Bo(t,e,n){for(let o of t){if(await e(),
n())return;let r=o(),s=performance.now();for(;r&&!r.next().done;)if(!(performance.now()-s<6)){if(await e(),n())return;s=performance.now()}}}function*ut(t,e){for(let n=t;n<
e;n+=65536)yield[n,Math.min(n+65536,e)]}var Jc=new Set(["kernel","gpu_memcpy","gpu_memset"]);function*zo(t,e){let n=Uint8Array.from(t.header.cats,i=>+Jc.has(i)),o=cn(0),[r,s,a]=[0,0,0];for(let{kind:i,
count:l}of t.header.lanes){let f=a+l,u=cn(i==="device"?l:0);for(let[d,p]of ut(a,f)){if(t.start[d]>=e[1])break;i==="device"?r+=ti(t,n,e,u,d,p):s+=Qc(t,e,d,p),yield}
o=ei(o,u),a=f}let c=0;for(let i=0;i<o.num;i++)c+=o.to[i]-o.from[i];return{busy:c,idle:e[1]-e[0]-c,work:r,calls:s}}function Qc({start:t,dur:e},[n,o],r,s){let a=0;
for(let c=r;c<s&&t[c]<o;c++)a+=+(t[c]+e[c]>n);return a}function ti({start:t,dur:e,cat:n},o,[r,s],a,c,i){let l=0;for(let f=c;f<i&&t[f]<s;f++){let u=t[f]+e[f];u<=
r||!o[n[f]]||(l+=1,ln(a,Math.max(t[f],r),Math.min(u,s)))}return l}function cn(t){return{num:0,from:new Float64Array(t),to:new Float64Array(t)}}function ln(t,e,n){
let o=t.num-1;if(o>=0&&e<=t.to[o]){n>t.to[o]&&(t.to[o]=n);return}t.from[t.num]=e,t.to[t.num]=n,t.num+=1}function ei(t,e){if(!t.num||!e.num)return t.num?t:e;let n=cn(
t.num+e.num);for(let o=0,r=0;o<t.num||r<e.num;)r>=e.num||o<t.num&&t.from[o]<=e.from[r]?ln(n,t.from[o],t.to[o++]):ln(n,e.from[r],e.to[r++]);return n}function Do({
start:t,dur:e},n,o){let[r,s]=t[n]<=t[o]?[n,o]:[o,n],a=t[r]+e[r];return a<t[s]?[a,t[s]]:[t[r],Math.max(t[s],t[r]+1)]}var ni=`
.cltl { --timeline-bg: #fff; --timeline-text: #1b1f24; position: relative; color: var(--timeline-text); background: var(--timeline-bg);
  font: 12px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; text-align: left; }
.cltl * { box-sizing: border-box; }
.cltl-tools { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; padding: 0 0 6px; }
.cltl-tools button, .cltl-search { font: inherit; color: inherit; background: var(--timeline-field);
  border: 1px solid var(--timeline-line); border-radius: 6px; height: 26px; }
.cltl-tools button { padding: 0 9px; cursor: pointer; }
.cltl-tools button:hover { background: var(--timeline-soft); }
.cltl-search { padding: 0 8px; width: 190px; }
.cltl-group { display: inline-flex; gap: 4px; align-items: center; }
.cltl-matches { color: var(--timeline-muted); min-width: 4em; font-variant-numeric: tabular-nums; }
.cltl-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; margin: 0 0 0 auto; padding: 0; list-style: none; color: var(--timeline-muted); }
.cltl-legend li { display: inline-flex; align-items: center; gap: 5px; margin: 0; }
.cltl-legend i { width: 11px; height: 11px; border-radius: 2px; }
.cltl button[aria-pressed=true] { background: var(--timeline-accent); color: var(--timeline-bg); border-color: transparent; }
.cltl-lanes { border: 1px solid var(--timeline-line); border-radius: 8px; margin: 0 0 6px; max-height: 220px; overflow: auto; scrollbar-width: thin; }
.cltl-lanes ul { list-style: none; margin: 0; padding: 4px; }
.cltl-lanes li { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; margin: 0; padding: 2px 4px; }
.cltl-lanes :is(button, input) { font: inherit; color: inherit; background: var(--timeline-field); border: 1px solid var(--timeline-line);
  border-radius: 6px; height: 24px; padding: 0 7px; }
.cltl-lanes button:disabled { opacity: .4; }
.cltl-lane { flex: 1 1 140px; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding: 0 6px; }
.cltl-lanes input { width: 160px; }
.cltl-frame { position: relative; overflow: hidden auto; border: 1px solid var(--timeline-line); border-radius: 8px;
  resize: vertical; background: var(--timeline-bg); overscroll-behavior-x: contain; scrollbar-width: thin; }
.cltl-stage { position: relative; }
.cltl-canvas { position: sticky; top: 0; left: 0; display: block; touch-action: pan-y; cursor: default; outline: none; }
.cltl-frame:has(.cltl-canvas:focus-visible) { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl :is(button, input):focus-visible { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl-tip { position: absolute; z-index: 5; max-width: min(440px, 90%); padding: 6px 9px; border-radius: 6px; pointer-events: none;
  background: var(--timeline-tip); color: var(--timeline-tip-text); box-shadow: 0 2px 8px #0005; overflow-wrap: anywhere; }
.cltl-tip b { display: block; font-weight: 600; }
.cltl-tip[hidden] { display: none; }
.cltl-hint { color: var(--timeline-muted); padding: 4px 2px 0; font-size: 11.5px; }
.cltl-hint span { white-space: nowrap; margin-right: 8px; }
.cltl-hint kbd { font: inherit; border: 1px solid var(--timeline-line); border-radius: 4px; padding: 0 4px; }
.cltl dl.cltl-keys { position: absolute; top: 34px; left: 0; right: 0; z-index: 7; display: grid; grid-template-columns: max-content 1fr;
  gap: 2px 12px; margin: 0; padding: 8px 12px; border: 1px solid var(--timeline-line); border-radius: 8px; background: var(--timeline-field);
  box-shadow: 0 4px 14px #0004; }
.cltl dl.cltl-keys[hidden] { display: none; }
.cltl-keys dt { font-weight: 600; }
.cltl-keys dd { margin: 0; }
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`,Uo=Symbol.for("cudalens.timeline.style");function Wo(t){let e=t.getRootNode(),n=e instanceof ShadowRoot?e:document;if(n[Uo])return;let o=new CSSStyleSheet;o.replaceSync(
ni),n[Uo]=o,n.adoptedStyleSheets=[...n.adoptedStyleSheets,o]}function Go({style:t},e){let{bg:n,text:o,muted:r,line:s,lineSoft:a,accent:c,tip:i,field:l}=e;for(let[
f,u]of Object.entries({bg:n,text:o,muted:r,line:s,soft:a,accent:c,tip:i,field:l}))t.setProperty(`--timeline-${f}`,u);t.setProperty("--timeline-tip-text",e.tipText),
t.setProperty("color-scheme",n<"#8"?"dark":"light")}var oi="W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, and Enter ag\
ain goes to the launch or the kernel. F zooms to the selection, 0 shows the whole run, B goes back to the window before, slash searches, C folds a lane, P pins \
it, Escape goes back, question mark lists all keys.",ri=[["wheel","zoom, after a click"],["Ctrl+wheel","zoom"],["drag","pan"],["Shift+drag","select time"],["W A\
 S D","move"],["\u2190 \u2192","next event"],["Enter","launch or kernel"],["F","zoom to selection"],["0","whole run"],["B","back"],["/","search"],["?","all keys"]],
si=[["click","details of an event; arrow keys then go to its neighbours"],["double-click, F or Z","zoom to the event or the selected time; without one, show the\
 whole run"],["0","show the whole run"],["B or Backspace","back to the window before the last move (with Shift: forward)"],["\u2190 \u2192","next event of the l\
ane, or move the window"],["\u2191 \u2193","the caller or a call within, or the next lane"],["Enter","select an event; on a selected one, go to its launch or it\
s kernel"],["L","go to the launch or the kernel"],["W S, + \u2212","zoom in and out at the pointer"],["A D","move left and right"],["Ctrl+wheel","zoom at any ti\
me; after a click the wheel alone does"],["drag","move; on the ruler or with Shift, select time"],["Shift+click","select the time between two events"],["/ then \
N","search names, next match (Shift+N: previous)"],["C, P","fold a lane, pin it on top"],["Home, End","beginning and end of the run"],["Escape","clear the searc\
h, then the selection"]];function Ko(t){Wo(t);let e=ai(),n=h("canvas",{class:"cltl-canvas",tabindex:"0",role:"application","aria-roledescription":"timeline","ar\
ia-label":"Timeline of the trace"}),o=h("div",{class:"cltl-stage"},n),r=h("div",{class:"cltl-frame"},o),s=h("div",{class:"cltl-tip",hidden:!0,"aria-hidden":"tru\
e"}),a=h("div",{class:"cltl-spoken","aria-live":"polite"}),c=h("div",{class:"cltl-spoken",id:`cltl-${Math.random().toString(36).slice(2)}`},oi);n.setAttribute("\
aria-describedby",c.id);let i=h("div",{class:"cltl-lanes",hidden:!0}),l=h("dl",{class:"cltl-keys",hidden:!0,"aria-label":"Keys"},...si.flatMap(([d,p])=>[h("dt",
{},d),h("dd",{},p)])),u=h("div",{class:"cltl",role:"group","aria-label":"Stream timeline"},e.tools,i,l,r,ci(),s,a,c);for(let d of u.querySelectorAll("canvas, in\
put, button"))d.setAttribute("data-lm-suppress-shortcuts","true");return t.append(u),{...e,canvas:n,stage:o,frame:r,lanes:i,keys:l,tip:s,spoken:a,host:u}}function ai(){
let t=(g,m,w)=>h("button",{type:"button","aria-label":g,title:w},m),e=(...g)=>h("span",{class:"cltl-group"},...g),n=h("input",{class:"cltl-search",type:"search",
placeholder:"Search names  ( / )","aria-label":"Search event names",autocomplete:"off",spellcheck:"false"}),o=h("span",{class:"cltl-matches",role:"status"}),r=t(
"Previous match","\u2039","Previous match (Shift+Enter)"),s=t("Next match","\u203A","Next match (Enter)"),a=t("Zoom in","+","Zoom in (W)"),c=t("Zoom out","\u2212",
"Zoom out (S)"),i=t("Fit the whole trace","Fit","Show the whole trace (0)"),l=t("Lanes","Lanes","Pin, move, fold and filter lanes");l.setAttribute("aria-expande\
d","false");let f=t("All keys","?","List the keys (?)"),u=t("PNG picture of the lanes","PNG","Save the lanes as they show, as PNG"),d=h("ul",{class:"cltl-legend",
"aria-label":"Colours"}),p=h("div",{class:"cltl-tools",role:"toolbar","aria-label":"Timeline"},e(n,r,s,o),e(c,a,i,l,u,f),d);return{search:n,matches:o,previous:r,
next:s,zoomIn:a,zoomOut:c,fit:i,lanesButton:l,picture:u,keysButton:f,legend:d,tools:p}}function fn({keys:t}){t.hidden=!t.hidden}function ci(){let t=ri.flatMap(([
e,n])=>[h("span",{},h("kbd",{},e),` ${n}`)," "]);return h("div",{class:"cltl-hint","aria-hidden":"true"},...t)}function Xo(t,e){t.legend.replaceChildren(...e.map(
([n,o])=>{let r=h("i",{"aria-hidden":"true"});return r.style.background=o,h("li",{},r,n)}))}function jo(t,e,n,o){let[r,...s]=e;t.tip.replaceChildren(h("b",{},r),
...s.map(l=>h("div",{},l))),t.tip.hidden=!1;let{offsetWidth:a,offsetHeight:c}=t.tip,i=t.host.clientWidth;t.tip.style.left=`${Math.max(0,n+14+a>i?n-a-10:n+14)}px`,
t.tip.style.top=`${o+18+c>t.host.clientHeight?o-c-8:o+18}px`}var $=18,Bt=24,T=26,A=Bt+T,un=4,ii=20;function kt(t,e=!1){let n=1/0,o=-1/0,r=t.header.cats.map(s=>s==="Trace"||s==="overhead");for(let s=0;s<t.n;s++){if(e&&(r[t.
cat[s]]||t.flags[s]&L.instant))continue;t.start[s]<n&&(n=t.start[s]);let a=t.start[s]+t.dur[s];a>o&&(o=a)}return n===1/0?e?kt(t):[0,1e3]:[n,Math.max(o,n+1)]}function dn([
t,e],n){let o=(n[1]-n[0])*1.04,r=Math.min(Math.max(e-t,Math.min(ii,o)),o),s=(t+e)/2,a=n[0]-r*.9,c=n[1]-r*.1,i=r>=o?(n[0]+n[1]-o)/2:Math.min(Math.max(s-r/2,a),c);
return[i,i+r]}function fe(t){let e=(t[1]-t[0])*.02;return[t[0]-e,t[1]+e]}function Vo(t,e,n,o=110){let r=(e-t)*o/Math.max(n,1),s=10**Math.floor(Math.log10(r)),a=Math.
max(1,([1,2,5,10].find(i=>i*s>=r*.999)??10)*s),c=[];for(let i=Math.ceil(t/a);i*a<=e&&c.length<200;i++)c.push({t:i*a,text:fi(i*a,a)});return{ticks:c,step:a}}var li=[
[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]];function fi(t,e){let[n,o]=li.find(([s])=>Math.abs(t)>=s)??[1,"ns"],r=Math.max(0,Math.ceil(Math.log10(n/e)-1e-9));return t===
0?"0":`${(t/n).toFixed(r)} ${o}`}function ue(t,e,n,o=0){let r=new Float64Array(t.length),s=new Float64Array(t.length),a=new Uint16Array(t.length),c=0;for(let i of n)
a[i]=e.has(i)?1:t[i],r[i]=c,c+=a[i]*$+2*un,s[i]=c;return{order:n,tops:r,ends:s,shown:a,pinned:o?s[n[o-1]]:0,total:c}}function dt(t,e){let{order:n,tops:o}=t;if(e<
0||e>=t.total)return-1;let r=0,s=n.length-1;for(;r<s;){let a=r+s+1>>1;o[n[a]]<=e?r=a:s=a-1}return n[r]}function de(t,e,n){return t.tops[e]+un+n*$}function qo(t,e){
let n=dt(t,e);if(n<0)return null;let o=Math.floor((e-t.tops[n]-un)/$);return o>=0&&o<t.shown[n]?{lane:n,row:o}:null}var ui=.6;function he({size:t,layout:e}){return e.pinned<=ui*(t.height-A)?e.pinned:0}function pe(t,e){return e-A<he(t)?e-A:e-A+t.scroll}function ot(t){let{size:e,
view:n,layout:o}=t,r=e.width-e.gutter,s=Math.max(1,Math.round(r*e.ratio)),a=(n[1]-n[0])/s,c=Math.round(n[0]/a)*a,i=s/e.ratio/(n[1]-n[0]),l=he(t),f=p=>e.gutter+(p-
c)*i,u=(p,g)=>A+g-(o.tops[p]<l?0:t.scroll),d=(p,g)=>u(p,de(o,p,g));return{width:r,pixels:s,w:a,t0:c,t1:c+s*a,scale:i,parts:di(t,l),x:f,y:d,down:u}}function di({
layout:t,size:e,scroll:n},o){let{order:r,tops:s}=t,a=Math.min(n,Math.max(0,t.total-1))+o,c=n+e.height-A,i=Math.max(0,r.indexOf(dt(t,a))),l=dt(t,c),u={lanes:r.slice(
i,l<0?r.length:r.indexOf(l)+1).filter(p=>s[p]>=o),top:A+o,bottom:e.height};if(!o)return[u];let d={lanes:r.filter(p=>s[p]<o),top:A,bottom:A+o};return[u,d]}function Mt(t,e,n){
let o=t.data.lane[n],r=t.rows.row[n];return r>=t.layout.shown[o]?null:{x:e.x(t.data.start[n]),y:Math.round(e.y(o,r)),width:Math.max(1,t.data.dur[n]*e.scale)}}var Yo={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#\
d55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_\
runtime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var U=Yo;function me(t,e){let{groups:n}=U,o=n.findIndex(s=>s.cats.includes(t));return o<0?n.length-1:n[o].key==="kernel"&&U.comm_prefixes.some(s=>e.startsWith(s))?
n.findIndex(s=>s.key==="comm"):o}function At(t){let e=2166136261;for(let n=0;n<t.length;n++)e=Math.imul(e^t.charCodeAt(n),16777619);return e>>>0}function vt(t){
let[e,n,o]=[1,3,5].map(r=>Number.parseInt(t.slice(r,r+2),16));return[e,n,o]}function pi(t,e,n){let o=vt(e),[r,s,a]=vt(t).map((c,i)=>Math.floor(c+(o[i]-c)*n+.5));
return[r,s,a]}function mi(t){let[e,n,o]=t.map(r=>r/255).map(r=>r<=.04045?r/12.92:((r+.055)/1.055)**2.4);return .2126*e+.7152*n+.0722*o}var q=U.light.shades.length;
function zt(t){let e=U[t].shades,n=U.groups.flatMap(o=>e.map(([r,s])=>pi(o.color,r,s)));return{pixels:Uint32Array.from(n,([o,r,s])=>(s<<16|r<<8|o)>>>0),css:n.map(
o=>`rgb(${o.join(",")})`),ink:n.map(o=>(mi(o)+.05)**2>.05*1.05?"#000000":"#ffffff")}}var Y=16,ge=512,Dt=65535,gi=.02,Zo=88,wi=255<<24>>>0,bi=150<<24>>>0;function Qo(t){let{start:e,dur:n,n:o,header:r}=t,s=new Uint16Array(o),a=[],c=new Float64Array(
ge),i=new Int32Array(ge),l=new Map,f=0;for(let u of r.lanes){let d=-1,p=0;c.fill(-1/0);let g=f+u.enclosing;for(let m=f+u.count;f<m;f++){if(f<g&&f>g-u.enclosing){
s[f]=Dt;continue}let w=e[f],y=w+n[f];for(;d>=0&&c[d]<=w;)d--;let x=d;for(;x>=0&&!(c[x]>w&&c[x]>=y);)x--;for(x++;x<ge&&c[x]>w;){if(e[i[x]]<w&&c[x]-w<gi*(y-w)){l.
set(i[x],w);break}x++}if(x>=ge){s[f]=Dt;continue}s[f]=x,c[x]=y,i[x]=f,y>w&&x>d&&(d=x),x>=p&&(p=x+1)}a.push(Math.max(p,1))}return{row:s,heights:a,ends:l}}function we(t,e,n){
let o=n;for(;e.row[o]===Dt&&o>0&&t.lane[o-1]===t.lane[n];)o--;return e.row[n]===Dt&&e.row[o]===0?o:n}function tr(t){let{names:e,cats:n}=t.header,o=new Map,r=new Uint8Array(
t.n),s=new Int8Array(e.length).fill(-1),a=-1,c=0;for(let i=0;i<t.n;i++){let l=t.name[i]*65536+t.cat[i];if(l!==a){let f=o.get(l);if(f===void 0){let u=e[t.name[i]];
s[t.name[i]]<0&&(s[t.name[i]]=At(u)%q),f=me(n[t.cat[i]],u)*q+s[t.name[i]],o.set(l,f)}a=l,c=f}r[i]=c}return r}function be(t,e,n,o=null){let{start:r,dur:s,lane:a,
n:c}=t,i=m=>e.row[m]===Dt||o!==null&&!o[m],l=Jo(e.heights),f=new Uint32Array(l[e.heights.length]);for(let m=0;m<c;m++)i(m)||f[l[a[m]]+e.row[m]]++;let u=Jo(f),d=u[u.
length-1],p={first:u,laneRow:l,at:new Uint32Array(d),s:new Float64Array(d),e:new Float64Array(d),sum:new Float64Array(d+1),tone:new Uint8Array(d)},g=u.slice();for(let m=0;m<
c;m++){if(i(m))continue;let w=g[l[a[m]]+e.row[m]]++;p.at[w]=m,p.s[w]=r[m],p.e[w]=r[m]+s[m],p.tone[w]=n[m]}for(let[m,w]of e.ends)i(m)||(p.e[yi(p,l[a[m]]+e.row[m],
m)]=w);for(let m=0;m<d;m++)p.sum[m+1]=p.sum[m]+p.e[m]-p.s[m];return{...p,maxima:xi(p.s,p.e)}}function yi({first:t,at:e},n,o){let r=t[n],s=t[n+1];for(;r<s;){let a=r+
s>>1;e[a]<o?r=a+1:s=a}return r}function Jo(t){let e=new Uint32Array(t.length+1);for(let n=0;n<t.length;n++)e[n+1]=e[n]+t[n];return e}function xi(t,e){let n=[],o=null;
for(let r=t.length;r>Y;){let s=Math.ceil(r/Y),a=new Uint32Array(s);for(let c=0;c<s;c++){let i=-1,l=-1;for(let f=c*Y;f<Math.min(r,(c+1)*Y);f++){let u=o===null?f:
o[f];e[u]-t[u]>l&&(l=e[u]-t[u],i=u)}a[c]=i}n.push(a),o=a,r=s}return n}function er(t,e,n){let{s:o,e:r,maxima:s}=t,a=e,c=r[e]-o[e],i=u=>{let d=r[u]-o[u];(d>c||d===
c&&u<a)&&(c=d,a=u)},l=e,f=n;for(let u=-1;l<f;u++){let d=u<0?null:s[u],p=u+1>=s.length||f-l<=Y;for(;l<f&&(p||l%Y);)i(d===null?l++:d[l++]);for(;f>l&&f%Y;)i(d===null?
--f:d[--f]);l/=Y,f/=Y}return a}function ye(t,e,n,o){let r=1,s=e;for(;s+r<n&&t[s+r]<o;)s+=r,r*=2;let a=Math.min(n,s+r);for(;s<a;){let c=s+a>>1;t[c]<o?s=c+1:a=c}return s}
function Z(t,e,n){let o=t.first[e],r=ye(t.s,o,t.first[e+1],n);return r>o&&t.e[r-1]>n?r-1:r}function nr(t,e,{t0:n,w:o,out:r,base:s,width:a,minWidth:c},i,l){let{s:f,
e:u,sum:d,tone:p}=t,g=t.first[e+1],m=1/o,w=n+a*o,y=Z(t,e,n),x=0;for(;y<g&&f[y]<w&&x<a;){let b=(f[y]-n)*m;b>x&&(x=Math.floor(b));let S=n+x*o;if(u[y]<=S&&f[y]<S){
y++;continue}if(f[y]<=S&&u[y]>=S+o){let re=(u[y]-n)*m,se=Math.min(a,Math.max(x+1,Math.floor(re)));r.fill((i[p[y]]|wi)>>>0,s+x,s+se),re-b>=c&&l(y,b,re),re-b>=4&&
se<a&&(r[s+se-1]=(i[p[y]]|bi)>>>0),x=se,u[y]<=n+x*o&&y++;continue}let I=S+o,k=ye(f,y,g,I);if(k===y){x++;continue}let H=Math.max(0,S-f[y])+Math.max(0,u[k-1]-I),lt=(d[k]-
d[y]-H)*m,oe=k-y===1?y:er(t,y,k),Nc=Zo+(255-Zo)*(lt>1?1:lt);r[s+x]=(i[p[oe]]|Math.round(Nc)<<24)>>>0,x++,y=u[k-1]>I?k-1:k}}function or(t,e,[n,o],r){let{s,e:a,sum:c}=t,
i=(o-n)/r.length,l=t.first[e+1],f=Z(t,e,n);for(let u=0;u<r.length&&f<l;u++){let d=n+u*i,p=ye(s,f,l,d+i);if(p===f&&!(s[f]<d+i))continue;let g=Math.max(0,d-s[f])+
Math.max(0,a[p-1]-d-i);r[u]+=Math.max(0,c[p]-c[f]-g)/i,f=p>f&&a[p-1]>d+i?p-1:p}}function xe(t,e,n,o){let{s:r,e:s,first:a}=t,c=Z(t,e,n);if(c<a[e+1]&&r[c]<=n&&s[c]>
n&&s[c]-r[c]>=2*o)return t.at[c];let i=Z(t,e,n-o),l=ye(r,i,a[e+1],n+o),f=l<a[e+1]&&r[l]<=n+o?l+1:l;return i<f?t.at[er(t,i,f)]:-1}var sr=["device","host"],ki=400;function Mi(t,e){let n={device:new Float32Array(e),host:new Float32Array(e)},o={device:0,host:0};t.data.header.lanes.forEach((r,s)=>{
for(let a=t.index.laneRow[s];a<Math.min(t.index.laneRow[s+1],ki);a++)or(t.index,a,t.whole,n[r.kind])});for(let r of sr){for(let s of n[r])s>o[r]&&(o[r]=s);if(o[r]>
0)for(let s=0;s<e;s++)n[r][s]/=o[r]}return{shares:n,most:o}}function vi(t,e){let n=document.createElement("canvas"),o=Math.max(1,Math.round(e*t.size.ratio));n.width=
o,n.height=Math.round((T-6)*t.size.ratio);let r=N(n),{shares:s,most:a}=Mi(t,o),c=sr.filter(l=>a[l]>0),i=n.height/Math.max(c.length,1);return c.forEach((l,f)=>{r.
fillStyle=t.tones.css[l==="device"?0:t.hostTone];for(let u=0;u<o;u++){let d=s[l][u]*(i-1);d>0&&r.fillRect(u,(f+1)*i-Math.max(1,d),1,Math.max(1,d))}}),n}function rr(t,e){
let{gutter:n,width:o}=t.size;return n+(e-t.whole[0])/(t.whole[1]-t.whole[0])*(o-n)}function hn(t,e){let{gutter:n,width:o}=t.size;return t.whole[0]+(e-n)/(o-n)*(t.
whole[1]-t.whole[0])}function ar(t,e,{width:n,t0:o,t1:r}){let{gutter:s,ratio:a}=e.size,c=`${n} ${a} ${e.mode}`;e.overview?.key!==c&&(e.overview={key:c,picture:vi(
e,n)}),t.fillStyle=e.colors.gutter,t.fillRect(s,0,n,T),t.drawImage(e.overview.picture,s,3,n,T-6);let i=Math.max(s,rr(e,o)),l=Math.min(s+n,rr(e,r));t.fillStyle=e.
colors.bg,t.globalAlpha=.65,t.fillRect(s,0,i-s,T),t.fillRect(l,0,s+n-l,T),t.globalAlpha=1,t.strokeStyle=e.colors.muted,t.lineWidth=1;let f=Math.max(3,l-i);t.strokeRect(
Math.min(i,s+n-f)+.5,.5,f-1,T-1)}var pn=80;function ir(t){let e=new Uint32Array(t.n+1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&e[t.launch[r]+1]++;for(let r=0;r<t.n;r++)e[r+1]+=e[r];let n=new Uint32Array(
e[t.n]),o=e.slice(0,-1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&(n[o[t.launch[r]]++]=r);return{first:e,work:n}}function mn(t,e,n=pn){if(t.data.launch[e]>=0)return[
e];let{first:o,work:r}=t.launches;return[...r.subarray(o[e],Math.min(o[e+1],o[e]+n))]}function lr(t,e,n){let o=new Set;for(let r of[e.hover,e.focused,e.selected])
if(r!==null)for(let s of mn(e,r))o.add(s);t.globalAlpha=.45;for(let r of Ai(e,n)){let s=e.data.start[e.data.launch[r]];!o.has(r)&&s>=n.t0&&s<=n.t1&&cr(t,e,n,r,1)}
t.globalAlpha=1;for(let r of o)cr(t,e,n,r,1.8)}function Ai(t,e){let{index:n,data:o}=t,r=[],s=0;for(let a of e.parts.flatMap(({lanes:c})=>c))if(o.header.lanes[a].
kind==="device")for(let c=0;c<t.layout.shown[a];c++){let i=n.laneRow[a]+c;for(let l=Z(n,i,e.t0);l<n.first[i+1]&&n.s[l]<e.t1;l++){if(s++>4*pn)return[];if(o.launch[n.
at[l]]>=0&&r.push(n.at[l])>pn)return[]}}return r}function cr(t,e,n,o,r){let s=Mt(e,n,e.data.launch[o])??Si(e,n,e.data.launch[o]),a=Mt(e,n,o);if(s===null||a===null)
return;let c=a.y>s.y,i=s.x+Math.min(s.width/2,12),l=s.y+(c?$-1:0),f=a.y+(c?0:$-1),u=Math.min(60,Math.abs(f-l)/2+8)*(c?1:-1);t.strokeStyle=e.colors.arrow,t.fillStyle=
e.colors.arrow,t.lineWidth=r,t.beginPath(),t.moveTo(i,l),t.bezierCurveTo(i,l+u,a.x,f-u,a.x,f),t.stroke();let d=c?-6:6;t.beginPath(),t.moveTo(a.x,f),t.lineTo(a.x-
3.5,f+d),t.lineTo(a.x+3.5,f+d),t.fill()}function Si(t,e,n){let o=n;for(;o>=0&&t.rows.row[o]>=t.layout.shown[t.data.lane[o]];)o=t.data.parent[o];let r=o<0?null:Mt(
t,e,o);return r&&{x:e.x(t.data.start[n]),y:r.y,width:1}}function fr(t,e){let n=document.createElement("canvas");return{canvas:t,context:N(t,{alpha:!1}),stripCanvas:n,stripContext:N(n),strip:null,labels:new Array(e.header.
names.length)}}function ur(t,e,n){let{stripCanvas:o,stripContext:r}=t;if(t.strip===null||o.width<e||o.height<n){o.width=e,o.height=Math.max(n,o.height);let s=r.
createImageData(e,o.height);t.strip={image:s,pixels:new Uint32Array(s.data.buffer)}}return t.strip}var gn="#e5484d";function dr(t){let e=[0];for(let n of t.header.lanes)e.push(e[e.length-1]+n.count);return(t.header.races??[]).map(n=>({...n,event:Ti(t,n,e)}))}
function Ti(t,{lane:e,at:n,dur:o},r){if(e<0)return-1;for(let s=r[e];s<r[e+1];s++)if(t.start[s]===n&&t.dur[s]===o)return s;return-1}function hr(t,e,{x:n,t0:o,t1:r}){
t.fillStyle=gn;for(let{at:s}of e.races){if(s<o||s>r)continue;let a=Math.round(n(s));t.fillRect(a,A-14,1.5,14),t.beginPath(),t.moveTo(a,A-14),t.lineTo(a+9,A-10.5),
t.lineTo(a,A-7),t.fill()}}var ke="#d55e00",pr=8;function mr(t){let e=t.header.syncs??[];if(!e.length)return[];let n=[0];for(let r of t.header.lanes)n.push(n[n.length-1]+r.count);let o=new Map(
e.map(r=>[`${r.lane} ${r.at} ${r.dur}`,-1]));for(let r of new Set(e.map(s=>s.lane)))for(let s=n[r];s<n[r+1];s++){let a=`${r} ${t.start[s]} ${t.dur[s]}`;o.has(a)&&
o.set(a,s)}return e.map(r=>({...r,event:o.get(`${r.lane} ${r.at} ${r.dur}`)??-1}))}function gr(t,e,{x:n,t0:o,t1:r}){t.fillStyle=ke;for(let{at:s,dur:a}of e.syncs){
if(s+a<o||s>r)continue;let c=Math.round(n(s));t.fillRect(c,A-pr/2,Math.max(1.5,n(s+a)-c),pr/2)}}var Ei=4e3;function wr(t,e,n){let o=Qo(e),r=tr(e),s=fe(kt(e,!0)),a=be(e,o,r),c=Ko(t),i=new Set(e.header.lanes.flatMap((f,u)=>f.is_idle?[u]:[])),l=e.header.lanes.
map((f,u)=>u);return{data:e,options:n,dom:c,painter:fr(c.canvas,e),rows:o,tone:r,hostTone:Oi(e,a),whole:s,extent:kt(e),view:[...s],before:[],after:[],movedAt:-1/0,
index:a,launches:ir(e),collapsed:i,order:l,pinned:new Set,filters:new Map,lanesPanel:null,layout:ue(o.heights,i,l),steps:$i(e),races:dr(e),syncs:mr(e),marks:[],
chosen:null,names:null,search:null,range:null,selected:null,focused:null,hover:null,hasFocus:!1,focusLane:-1,isArmed:!1,drag:null,held:new Set,pointerX:null,scroll:0,
size:{width:0,height:0,gutter:150,ratio:1},...wn(n.theme??"light"),overview:null,lowerNames:null,script:[],pending:0,beforeFrame:null,isGone:!1,isReleased:!1,cleanups:[]}}
function wn(t){let e=U[t],n=zt(t),o=Number.parseInt(e.dim.slice(1),16),r=((o&255)<<16|o&65280|o>>16)>>>0;return{mode:t,colors:e,tones:n,dimPixels:new Uint32Array(
n.pixels.length).fill(r)}}function E(t,e,n,o,r){e.addEventListener(n,o,r),t.cleanups.push(()=>e.removeEventListener(n,o,r))}function Oi({header:t},{first:e,laneRow:n,
tone:o}){let r=t.lanes.findIndex(({kind:s,count:a})=>s==="host"&&a>0);return r<0?0:o[e[n[r]]]}function $i(t){let e=new Set(t.header.step_names),n=[];if(!e.size)
return n;for(let o=0;o<t.n;o++)e.has(t.name[o])&&t.header.lanes[t.lane[o]].kind==="host"&&n.push({t0:t.start[o],t1:t.start[o]+t.dur[o]});return n.length>Ei?[]:n.
sort((o,r)=>o.t0-r.t0)}var Ci=4,_i={gutter:"pointer",ruler:"col-resize",overview:"ew-resize"};function Li(t,e){let n=t.getBoundingClientRect();return[e.clientX-n.left,e.clientY-n.top]}
function Me(t,e,n){return e<t.size.gutter?n<A?"corner":"gutter":n<T?"overview":n<A?"ruler":"plot"}function yr(t,e){let{canvas:n}=t.dom,o=r=>Li(n,r);E(t,n,"point\
erdown",r=>{if(r.button!==0)return;let[s,a]=o(r),c=Me(t,s,a);t.isArmed=!0,n.focus({preventScroll:!0}),n.setPointerCapture(r.pointerId);let i=c==="ruler"||c==="p\
lot"&&r.shiftKey?"range":c;t.drag={kind:i,x:s,y:a,view:[...t.view],scroll:t.scroll,moved:!1,from:e.timeAt(s)},i==="overview"&&e.centre(hn(t,s))}),E(t,n,"pointer\
move",r=>{let[s,a]=o(r);if(t.drag===null){let c=Me(t,s,a);n.style.cursor=_i[c]??"default",c==="plot"?e.hover(s,a):e.leave()}else Ri(t,e,s,a)}),E(t,n,"pointerup",
r=>{let[s,a]=o(r),{drag:c}=t;t.drag=null,n.style.cursor="default",c!==null&&(c.kind==="range"&&c.moved?e.finishRange():c.kind==="gutter"?c.moved?e.dropLane(c.y,
a):e.toggleLane(a):!c.moved&&c.kind==="range"&&!e.measureTo(s,a)?e.clearRange():!c.moved&&c.kind==="plot"&&e.click(s,a))}),E(t,n,"pointercancel",()=>{t.drag=null}),
E(t,n,"pointerleave",()=>{t.isArmed=t.drag!==null,e.leave()}),E(t,n,"dblclick",r=>{let[s,a]=o(r);Me(t,s,a)==="plot"?e.zoomToEventAt(s,a):Me(t,s,a)!=="gutter"&&e.
fit()}),E(t,n,"wheel",r=>Ii(t,e,r,o(r)),{passive:!1})}function Ri(t,e,n,o){let{drag:r}=t;if(r!==null&&!(!r.moved&&Math.hypot(n-r.x,o-r.y)<Ci))if(r.moved=!0,r.kind===
"plot"){t.dom.canvas.style.cursor="grabbing";let s=(r.view[1]-r.view[0])/(t.size.width-t.size.gutter),a=(n-r.x)*s;e.show([r.view[0]-a,r.view[1]-a]),t.dom.frame.
scrollTop=r.scroll-(o-r.y)}else r.kind==="range"?e.dragRange(r.from,e.timeAt(Math.min(Math.max(n,t.size.gutter),t.size.width))):r.kind==="overview"&&e.centre(hn(
t,n))}function Ii(t,e,n,[o]){let r=n.deltaMode===1?16:n.deltaMode===2?400:1,[s,a]=[n.deltaX*r,n.deltaY*r],c=n.ctrlKey||n.metaKey;if(!c&&!t.isArmed)return;n.preventDefault();
let i=n.shiftKey&&s===0?a:s;!c&&(n.shiftKey||Math.abs(s)>Math.abs(a))?e.pan(i):e.zoom(Math.exp(Math.min(Math.max(a,-200),200)*(c&&Math.abs(a)<30?.01:.0022)),o)}
var bn={w:[1,0],s:[-1,0],a:[0,-1],d:[0,1]},br={ArrowLeft:"left",ArrowRight:"right",ArrowUp:"up",ArrowDown:"down"};function xr(t,e){let{canvas:n,search:o}=t.dom;
E(t,n,"keydown",r=>{r.ctrlKey||r.metaKey||r.altKey||Ni(t,e,r)&&(r.preventDefault(),r.stopPropagation())}),E(t,n,"keyup",r=>t.held.delete(r.key.toLowerCase())),E(
t,n,"focus",()=>e.focusChanged(!0)),E(t,n,"blur",()=>{t.held.clear(),t.isArmed=!1,e.focusChanged(!1)}),E(t,o,"input",()=>e.search(o.value)),E(t,o,"keydown",r=>{
if(r.stopPropagation(),r.key==="Enter")e.nextMatch(r.shiftKey?-1:1);else if(r.key==="Escape")o.value="",e.search(""),n.focus({preventScroll:!0});else return;r.preventDefault()})}
function Ni(t,e,n){let o=n.key.length===1?n.key.toLowerCase():n.key;if(o in bn)e.hold(o);else if(o in br)e.arrow(br[o]);else if(o==="Enter"||o===" ")e.enter();else if(o===
"f"||o==="z")e.zoomToFocused();else if(o==="0")e.fit();else if(o==="b"||o==="Backspace")e.back(n.shiftKey);else if(o==="?")e.showKeys();else if(o==="l")e.follow();else if(o===
"c")e.toggleFocusLane();else if(o==="p")e.pinFocusLane();else if(o==="/")t.dom.search.select();else if(o==="n")e.nextMatch(n.shiftKey?-1:1);else if(o==="+"||o===
"=")e.zoom(.7,null);else if(o==="-")e.zoom(1/.7,null);else if(o==="Home"||o==="End")e.toEnd(o==="End");else if(o==="PageUp"||o==="PageDown")t.dom.frame.scrollBy(
0,(o==="PageUp"?-.8:.8)*t.size.height);else return o==="Escape"?e.escape():!1;return!0}function yn(t){let e=[0,0];for(let n of t)e[0]+=bn[n][0],e[1]+=bn[n][1];return e}var Pi=.25;function kr(t,e,n){let{x:o,t0:r,t1:s,width:a}=n,{gutter:c}=e.size,{ticks:i}=Vo(r,s,a);t.fillStyle=e.colors.line,t.fillRect(c,A-1,a,1),t.textAlign="le\
ft";for(let{t:f,text:u}of i){let d=Math.round(o(f));t.fillStyle=e.colors.line,t.fillRect(d,A-8,1,8),t.fillStyle=e.colors.muted,d+60<e.size.width&&t.fillText(u,d+
4,T+Bt/2)}let{range:l}=e;l!==null&&l[1]>r&&l[0]<s&&Hi(t,e,l,n)}function Hi(t,e,n,{x:o,width:r}){let{gutter:s}=e.size,a=M(n[1]-n[0]),c=t.measureText(a).width+12,
i=(o(n[0])+o(n[1]))/2,l=Math.min(Math.max(i-c/2,s),s+r-c);t.fillStyle=e.colors.tip,t.fillRect(l,T+3,c,Bt-6),t.fillStyle=e.colors.tipText,t.fillText(a,l+6,T+Bt/2)}
function Mr(t,e,n){let{gutter:o,height:r}=e.size;t.fillStyle=e.colors.gutter,t.fillRect(0,0,o,r),t.textAlign="left";for(let s of n.parts){t.save(),t.beginPath(),
t.rect(0,s.top,o-1,s.bottom-s.top),t.clip(),xn(t,e,n,s,0);for(let a of s.lanes)Fi(t,e,n,s,a);t.restore()}t.fillStyle=e.colors.line,t.fillRect(o-1,0,1,r),t.fillRect(
0,A-1,o,1);for(let{bottom:s}of n.parts.slice(1))t.fillRect(0,s-2,e.size.width,2)}function Fi(t,e,n,o,r){let{layout:s,colors:a,size:c}=e,i=e.rows.heights[r]>1,l=$/
2+4,f=n.down(r,s.tops[r])+l,u=n.down(r,s.ends[r])-l,d=Math.round(Math.min(Math.max(f,o.top+l),u));t.fillStyle=a.muted,i&&Di(t,12,d,e.collapsed.has(r)),t.fillStyle=
r===e.focusLane&&e.hasFocus?a.accent:a.text,t.fillText(Bi(t,zi(e,r),c.gutter-32),22,d)}function Bi(t,e,n){return t.measureText(e).width<=n?e:ft(t,e.replace(/^(thread \S+) \([^()]*\)/,
"$1"),n,Pi)}function zi({data:t,filters:e},n){let{label:o}=t.header.lanes[n];return e.has(n)?`${o} (${e.get(n)?.text})`:o}function Di(t,e,n,o){let r=o?[[-2.5,-4],
[3,0],[-2.5,4]]:[[-4,-2.5],[4,-2.5],[0,3]];t.beginPath();for(let[s,a]of r)t.lineTo(e+s,n+a);t.fill()}function xn(t,e,{down:n},{lanes:o},r){t.fillStyle=e.colors.
lineSoft;for(let s of o)t.fillRect(r,Math.round(n(s,e.layout.ends[s]))-1,e.size.width-r,1)}var Ui=5,vr=24;function Ar(t,e,{x:n,t0:o,t1:r}){let{gutter:s,width:a,height:c}=e.size;t.fillStyle=e.colors.accent,t.textAlign="left";for(let{at:i,dur:l,note:f}of e.
marks){if(i+l<o||i>r)continue;let u=Math.max(s,Math.round(n(i))),d=Math.min(a,Math.max(u+2,n(i+l)));t.fillRect(u,T,d-u,Ui),t.globalAlpha=.5,i>=o&&t.fillRect(u,T,
1,c-T),t.globalAlpha=1;let p=f.length>vr?`${f.slice(0,vr)}\u2026`:f;if(!p)continue;let g=t.measureText(p).width+8,m=Math.min(u,a-g);t.fillRect(m,T,g,A-T-9),t.fillStyle=
e.colors.bg,t.fillText(p,m+4,T+(A-T-9)/2+.5),t.fillStyle=e.colors.accent}}function Sr({data:t,races:e},n){let{names:o,cats:r,lanes:s}=t.header,c=s[t.lane[n]].kind==="host"&&t.self[n]!==t.dur[n]?`, self ${M(t.self[n])}`:"",i=[o[t.name[n]].
slice(0,400)||"(no name)"],l=kn(t,n),f=t.name[n+s[t.lane[n]].enclosing-1];l&&i.push(`${l}, the innermost: ${o[f].slice(0,200)}`),i.push(t.flags[n]&L.instant?"in\
stant":`${M(t.dur[n])}${c}`),i.push(`${r[t.cat[n]]||"no category"} \xB7 at ${Gi(t.start[n])}`);let u=t.launch[n];if(u>=0){let p=o[t.name[u]].slice(0,100);i.push(
`launched by ${p}, ${M(t.start[n]-t.start[u])} earlier`)}let d=e.find(({event:p})=>p===n);return d&&i.push(`race: ${d.title}`),i}function kn(t,e){let{enclosing:n}=t.
header.lanes[t.lane[e]],o=e===0||t.lane[e-1]!==t.lane[e];return n>1&&o?`${n} enclosing frames`:void 0}function ve(t,e){let{names:n,cats:o,lanes:r}=t.header,s=[n[t.
name[e]].slice(0,200)||"no name",o[t.cat[e]]||"no category"];return s.push(t.flags[e]&L.instant?"an instant":`lasts ${M(t.dur[e])}`),s.push(`starts at ${M(t.start[e])}`,
`on ${r[t.lane[e]].label}`),t.launch[e]>=0&&s.push(`launched by ${n[t.name[t.launch[e]]].slice(0,100)}`),s.join(", ")}function Tr(t){return t.slice(0,300).replace(
/^void /,"").replaceAll("(anonymous namespace)::","").replaceAll("at::native::","")||t.slice(0,300)}function Er(t){return t.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
"")||t}var Wi=[[1e9,"s",9],[1e6,"ms",6],[1e3,"\xB5s",3]];function Gi(t){let[e,n,o]=Wi.find(([r])=>Math.abs(t)>=r)??[1,"ns",0];return`${(t/e).toFixed(o)} ${n}`}var Ki='11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',Xi=28;function Or(t){let{painter:e,size:n,colors:o}=t,r=e.context;
r.setTransform(n.ratio,0,0,n.ratio,0,0),r.font=Ki,r.textBaseline="middle",r.fillStyle=o.bg,r.fillRect(0,0,n.width,n.height);let s=ot(t);for(let a of s.parts)ji(
r,t,s,a);ol(r,t,s),kr(r,t,s),Ar(r,t,s),gr(r,t,s),hr(r,t,s),ar(r,t,s),Mr(r,t,s)}function ji(t,e,n,o){let{gutter:r}=e.size;t.save(),t.beginPath(),t.rect(r,o.top,n.
width,o.bottom-o.top),t.clip(),Vi(t,e,n),xn(t,e,n,o,r),qi(t,e,n,o),nl(t,e,n),lr(t,e,n),t.restore()}function Vi(t,e,{x:n,t0:o,t1:r}){t.fillStyle=e.colors.band,t.
globalAlpha=e.colors.bandAlpha,e.steps.forEach((s,a)=>{a%2===0&&s.t1>o&&s.t0<r&&t.fillRect(n(s.t0),A,Math.max(1,n(s.t1)-n(s.t0)),e.size.height)}),t.globalAlpha=
1}function qi(t,e,n,o){let{painter:r,size:s}=e,a=Yi(e,n,o);if(!a.length)return;let{pixels:c}=n,{image:i,pixels:l}=ur(r,c,a.length);l.fill(0,0,i.width*a.length);
let f=a.flatMap(({lane:p,row:g},m)=>Zi(e,n,p,g,l,m*i.width));r.stripContext.putImageData(i,0,0,0,0,c,a.length),t.imageSmoothingEnabled=!1;let[u,d]=[s.gutter,c/s.
ratio];a.forEach(({lane:p,row:g},m)=>{let w=Math.round(n.y(p,g));t.drawImage(r.stripCanvas,0,m,c,1,u,w,d,$-1)}),Ji(t,e,n,f)}function Yi(t,{y:e},{lanes:n,top:o,bottom:r}){
let s=[];for(let a of n)for(let c=0;c<t.layout.shown[a];c++){let i=e(a,c);i>o-$&&i<r&&s.push({lane:a,row:c})}return s}function Zi(t,e,n,o,r,s){let{index:a,chosen:c,
tones:i}=t,l=Xi*t.size.ratio,f=e.y(n,o),u={t0:e.t0,w:e.w,width:e.pixels,out:r,base:s,minWidth:l},d=[],p=(g,m,w)=>nr(g,a.laneRow[n]+o,u,m,(y,x,b)=>{w?.[g.at[y]]||
d.push({i:g.at[y],tone:g.tone[y],x0:x,x1:b,y:f,isDim:w!==null})});return c===null?p(a,i.pixels,null):(p(a,t.dimPixels,c.keep),p(c.index,i.pixels,null)),d}function Ji(t,e,n,o){
let{ratio:r,gutter:s}=e.size;t.textAlign="left";for(let{i:a,tone:c,x0:i,x1:l,y:f,isDim:u}of o){let d=Math.max(0,i)/r,p=Math.min(n.width,l/r)-d-8,g=kn(e.data,a)??
Qi(t,e,e.data.name[a],p);g&&(t.fillStyle=u?e.colors.muted:e.tones.ink[c],t.fillText(g,Math.round(s+d+4),Math.round(f)+$/2))}}function Qi(t,e,n,o){let{labels:r}=e.
painter,s=r[n]??el(t,e.data.header,n);if(r[n]=s,s.width<=o)return s.text;if(s.shortWidth<=o)return s.short;let a=Math.floor(s.short.length*o/s.shortWidth);for(;a>=
2&&tl(t,s,a)>o;)a--;return a<2?"":`${s.short.slice(0,a)}\u2026`}function tl(t,e,n){return e.cuts[n]??=t.measureText(`${e.short.slice(0,n)}\u2026`).width,e.cuts[n]}
function el(t,e,n){let o=e.short[n],r=o??Tr(e.names[n]),s=o??Er(r);return{text:r,short:s,cuts:[],width:t.measureText(r).width,shortWidth:t.measureText(s).width}}
function nl(t,e,n){for(let{event:o}of e.syncs)o>=0&&Ut(t,e,n,o,ke,1.5);for(let{event:o}of e.races)o>=0&&Ut(t,e,n,o,gn,2.5);e.hover!==null&&e.hover!==e.selected&&
Ut(t,e,n,e.hover,e.colors.text,1),e.selected!==null&&Ut(t,e,n,e.selected,e.colors.accent,2.5),e.focused!==null&&e.focused!==e.selected&&e.hasFocus&&Ut(t,e,n,e.focused,
e.colors.text,2,[4,2])}function Ut(t,e,n,o,r,s,a=[]){let c=Mt(e,n,o);if(c===null)return;t.strokeStyle=r,t.lineWidth=s,t.setLineDash(a);let i=Math.max(c.x,e.size.
gutter-4);t.strokeRect(i,c.y,Math.max(2,Math.min(c.x+c.width,e.size.width+4)-i),$-1),t.setLineDash([])}function ol(t,e,{x:n,width:o}){if(e.range===null)return;let{
gutter:r,height:s}=e.size,a=l=>Math.min(Math.max(l,r),r+o),[c,i]=e.range.map(l=>a(n(l)));i<=r||c>=r+o||(t.fillStyle=e.colors.accent,t.globalAlpha=e.colors.rangeAlpha,
t.fillRect(c,T,i-c,s-T),t.globalAlpha=1,c>r&&t.fillRect(c-.5,T,1,s),i<r+o&&t.fillRect(i-.5,T,1,s))}function $r(t){let e=new Uint8Array(U.groups.length);for(let o of t.
index.tone)e[o/q|0]=1;let n=[];return U.groups.forEach((o,r)=>{e[r]&&n.push([o.label,t.tones.css[r*q]])}),t.syncs.length&&n.push(["Host waits for GPU",ke]),n}var Cr=2e3,rl=100,sl=500;function St(t){if(t.isReleased)return;let{frame:e,stage:n,canvas:o}=t.dom,r=Math.max(1,e.clientWidth),s=Math.max(A+$,e.clientHeight),a=window.
devicePixelRatio||1;n.style.height=`${Math.max(s,Math.ceil(t.layout.total+A))}px`;let{size:c}=t;c.width!==r||c.height!==s||c.ratio!==a?(t.size={width:r,height:s,
ratio:a,gutter:Math.round(Math.min(188,Math.max(132,r*.2),r*.35))},o.width=Math.round(r*a),o.height=Math.round(s*a),o.style.width=`${r}px`,o.style.height=`${s}p\
x`,Ae(t)):O(t)}function Lr(t,e){if(t.isReleased!==e)return;if(t.isReleased=!e,e){t.size={...t.size,width:0},St(t);return}let{canvas:n}=t.dom;for(let o of[n,t.painter.
stripCanvas])o.width=o.height=0;t.painter.strip=null,t.overview=null}function Ae(t){if(t.isReleased)return;let e=performance.now();t.scroll=t.dom.frame.scrollTop,
Or(t),t.script.push(performance.now()-e),t.script.length>Cr&&t.script.splice(0,Cr/2)}function O(t){t.pending||t.isGone||(t.pending=requestAnimationFrame(e=>{t.pending=
0,!t.isGone&&(t.beforeFrame?.(e),Ae(t))}))}function Se(t,e){Rr(t),Mn(t,e)}function Rr(t){performance.now()-t.movedAt<=sl||(t.before.push(t.view),t.before.length>
rl&&t.before.shift(),t.after=[])}function Ir(t,e){let[n,o]=e?[t.after,t.before]:[t.before,t.after],{view:r}=t,s=n.pop();for(;s?.[0]===r[0]&&s[1]===r[1];)s=n.pop();
s!==void 0&&(o.push(r),Nr(t,s))}function Mn(t,e){t.movedAt=performance.now();let n=dn(e,t.extent);n[0]===t.view[0]&&n[1]===t.view[1]||(t.view=n,t.options.onTime?.(
[...n]),O(t))}function J(t,e){Rr(t),Nr(t,e)}function Nr(t,e){let n=dn(e,t.extent);if(t.held.clear(),matchMedia("(prefers-reduced-motion: reduce)").matches){Mn(t,
n);return}let o=t.view,r=null;t.beforeFrame=s=>{r??=s;let a=Math.min(1,(s-r)/180),c=1-(1-a)**3;Mn(t,a<1?[o[0]+(n[0]-o[0])*c,o[1]+(n[1]-o[1])*c]:n),a>=1?t.beforeFrame=
null:O(t)},O(t)}function Tt(t){let{data:e,names:n,search:o,filters:r}=t;if(n===null&&o===null&&!r.size)t.chosen=null;else{let s=new Uint8Array(e.header.names.length);
for(let i=0;i<s.length;i++)s[i]=+((n===null||n.has(i))&&(o===null||o.isHit[i]));let a=new Uint8Array(e.n),c=e.header.lanes.map((i,l)=>r.get(l)?.isHit??null);for(let i=0;i<
e.n;i++)a[i]=s[e.name[i]]&(c[e.lane[i]]?.[e.name[i]]??1);t.chosen={keep:a,index:be(e,t.rows,t.tone,a)}}O(t)}function vn(t){let{rows:e,collapsed:n,order:o,pinned:r}=t;
t.layout=ue(e.heights,n,o,r.size),St(t)}function ht(t){t.options.onSelect?.({range:t.range&&[...t.range],event:t.selected,names:t.names&&new Set(t.names)})}function pt(t,e,n=!1){
let{data:o,view:r,dom:s,layout:a}=t;s.tip.hidden=!0,t.hover=null;let c=we(o,t.rows,e),[i,l]=[o.start[c],o.start[c]+o.dur[c]],f=o.lane[c];t.rows.row[c]>=a.shown[f]&&
t.collapsed.delete(f)&&vn(t);let u=de(t.layout,f,t.rows.row[c]),d=t.size.height-A,p=he(t),g=u<p;!g&&u<t.scroll+p?s.frame.scrollTop=u-p-8:!g&&u+$>t.scroll+d&&(s.
frame.scrollTop=u+$+8-d);let m=r[1]-r[0],w=m/(t.size.width-t.size.gutter);n?J(t,_r(i,l,4)):l-i<3*w?J(t,_r(i,l,30)):(l<r[0]+m*.02||i>r[1]-m*.02)&&J(t,[(i+l-m)/2,
(i+l+m)/2]),O(t)}function _r(t,e,n){let o=e>t?(e-t)*n/2:500;return[(t+e)/2-o,(t+e)/2+o]}function Te(t,e){e<0||(t.focused=e,t.focusLane=t.data.lane[e],t.dom.spoken.
textContent=ve(t.data,e),pt(t,e))}function al(t,e){let n=t.index.laneRow[t.data.lane[e]]+t.rows.row[e],o=Z(t.index,n,t.data.start[e]);for(;o<t.index.first[n+1]&&t.index.at[o]!==e;)o++;return{r:n,
p:o}}function Ee(t,e,n){let o=we(t.data,t.rows,e);if(n==="left"||n==="right"){let{r:c,p:i}=al(t,o),l=n==="left"?i-1:i+1;return l>=t.index.first[c]&&l<t.index.first[c+
1]?t.index.at[l]:o}let r=t.data.lane[o],s=t.rows.row[o]+(n==="up"?-1:1),a=t.data.start[o]+t.data.dur[o]/2;if(s>=0&&s<t.layout.shown[r]){let c=n==="up"?t.data.start[o]:
a,i=An(t,r,s,c,n==="up"?0:t.data.dur[o]/2);if(i>=0)return i}return cl(t,r,n==="up"?-1:1,a)??o}function cl(t,e,n,o){let{order:r}=t.layout;for(let s=r.indexOf(e)+
n;s>=0&&s<r.length;s+=n){let a=An(t,r[s],0,o,1/0);if(a>=0)return a}return null}function An(t,e,n,o,r){let{index:s}=t,a=s.laneRow[e]+n,c=xe(s,a,o,0);if(c>=0)return c;
let i=Z(s,a,o),l=-1,f=r;for(let u of[i-1,i]){if(u<s.first[a]||u>=s.first[a+1])continue;let d=Math.max(s.s[u]-o,o-s.e[u],0);d<=f&&(l=s.at[u],f=d)}return l}function Wt(t,e){
return t.data.launch[e]>=0?t.data.launch[e]:mn(t,e,1)[0]??e}function Pr(t,e){let n=(t.view[0]+t.view[1])/2;for(let o of e){let r=An(t,o,0,n,1/0);if(r>=0)return r}
return-1}function Hr(t,e){if(!e.trim())return null;let n=Sn(t,e),o=0;for(let r=0;r<t.data.n;r++)o+=n[t.data.name[r]];return{isHit:n,count:o,at:-1}}function Sn(t,e){
let n=e.trim().toLowerCase();return t.lowerNames??=t.data.header.names.map(o=>o.toLowerCase()),Uint8Array.from(t.lowerNames,o=>+o.includes(n))}function Fr({data:t,
view:e},n,o){let r=n.at,s=(f,u)=>t.start[f]<t.start[u]||t.start[f]===t.start[u]&&f<u,a=-1,c=-1;for(let f=0;f<t.n;f++){if(!n.isHit[t.name[f]])continue;let u=o>0?
s:(p,g)=>s(g,p);(c<0||u(f,c))&&(c=f),(r>=0?u(r,f):o>0?t.start[f]>=e[0]:t.start[f]<=e[1])&&(a<0||u(f,a))&&(a=f)}let i=a>=0?a:c,l=0;if(i>=0)for(let f=0;f<t.n;f++)
l+=n.isHit[t.name[f]]&&!s(i,f)?1:0;return{found:i,ordinal:l}}function Gt(t,e){e<0||t.rows.heights[e]<2||(t.collapsed.delete(e)||t.collapsed.add(e),Tn(t,e,t.collapsed.has(e)?"folded":"unfolded"))}function Oe(t,e){let{order:n,
pinned:o}=t;e<0||(n.splice(n.indexOf(e),1),o.delete(e)?n.splice(o.size,0,e):(n.splice(o.size,0,e),o.add(e)),Tn(t,e,o.has(e)?"pinned":"no longer pinned"))}function Kt(t,e,n){
let{order:o,pinned:r}=t;if(e<0)return;let[s,a]=r.has(e)?[0,r.size-1]:[r.size,o.length-1];o.splice(o.indexOf(e),1),o.splice(Math.min(Math.max(n,s),a),0,e),Tn(t,e,
`is lane ${o.indexOf(e)+1} of ${o.length}`)}function Br(t,e,n){n.trim()?t.filters.set(e,{text:n.trim(),isHit:Sn(t,n)}):t.filters.delete(e),Tt(t)}function Tn(t,e,n){
t.dom.spoken.textContent=`${t.data.header.lanes[e].label} ${n}`,vn(t),t.lanesPanel?.update()}function Xt(t,e){t.beforeFrame=null,Se(t,e)}function $e(t,e){let{size:n,view:o}=t,r=e/(n.width-n.gutter)*(o[1]-o[0]);Xt(t,[o[0]+r,o[1]+r])}function En(t,e,n){let{
size:o,view:r}=t,s=n===null?.5:Math.min(Math.max((n-o.gutter)/(o.width-o.gutter),0),1),a=r[0]+s*(r[1]-r[0]);Xt(t,[a+(r[0]-a)*e,a+(r[1]-a)*e])}function zr(t,e){let n=(t.
view[1]-t.view[0])/2;Xt(t,[e-n,e+n])}function Dr(t,e){let{extent:n,view:o}=t,r=o[1]-o[0],s=r*.02,a=e?n[1]+s-r:n[0]-s;J(t,[a,a+r])}var il=3;function Wr(t){return{...ll(t),...fl(t),...ul(t)}}function ll(t){return{show:e=>Xt(t,e),pan:e=>$e(t,e),zoom:(e,n)=>En(t,e,n),centre:e=>zr(t,e),back:e=>Ir(
t,e),fit:()=>J(t,t.whole),toEnd:e=>Dr(t,e)}}function fl(t){return{timeAt:e=>Gr(t,e),hover:(e,n)=>dl(t,e,n),leave(){t.pointerX=null,Kr(t,null)},click:(e,n)=>hl(t,
e,n),zoomToEventAt(e,n){let o=Ce(t,e,n);o!==null&&pt(t,o,!0)},dragRange(e,n){t.range=[Math.min(e,n),Math.max(e,n)],O(t)},finishRange:()=>ht(t),measureTo(e,n){let[
o,r]=[t.selected,Ce(t,e,n)];return o===null||r===null||o===r?!1:(t.range=Do(t.data,o,r),t.selected=null,ht(t),O(t),!0)},clearRange(){t.range!==null&&(t.range=null,
ht(t),O(t))},toggleLane:e=>Gt(t,dt(t.layout,pe(t,e))),dropLane(e,n){let[o,r]=[e,n].map(s=>dt(t.layout,pe(t,s)));Kt(t,o,r<0?n<A?0:t.order.length-1:t.order.indexOf(
r))}}}function ul(t){return{zoomToFocused(){let e=t.focused??t.selected;e!==null?pt(t,e,!0):t.range!==null?J(t,pl(t.range)):J(t,t.whole)},showKeys:()=>fn(t.dom),
toggleFocusLane:()=>Gt(t,Ur(t)),pinFocusLane:()=>Oe(t,Ur(t)),arrow(e){t.focused!==null?On(t,Ee(t,t.focused,e)):e==="left"||e==="right"?$e(t,(e==="left"?-1:1)*80):
t.dom.frame.scrollBy(0,(e==="up"?-2:2)*$)},enter(){let{focused:e}=t;e===null?Te(t,Pr(t,Xr(t))):e===t.selected?On(t,Wt(t,e)):$n(t,e)},follow(){t.focused!==null&&
On(t,Wt(t,t.focused))},escape:()=>ml(t),search:e=>_e(t,e),nextMatch:e=>gl(t,e),hold:e=>wl(t,e),focusChanged(e){t.hasFocus=e,O(t)}}}function Gr(t,e){let n=ot(t);
return n.t0+(e-t.size.gutter)/n.scale}function Ce(t,e,n){let{index:o,layout:r,size:s}=t,a=qo(r,pe(t,n));if(a===null||e<s.gutter||n<A)return null;let c=il/ot(t).
scale,i=xe(o,o.laneRow[a.lane]+a.row,Gr(t,e),c);return i<0?null:i}function dl(t,e,n){let{dom:o}=t;t.pointerX=e;let r=Ce(t,e,n);r!==null&&jo(o,Sr(t,r),e+o.frame.
offsetLeft,n+o.frame.offsetTop),Kr(t,r)}function Kr(t,e){e===null&&(t.dom.tip.hidden=!0),e!==t.hover&&(t.hover=e,t.options.onHover?.(e),O(t))}function hl(t,e,n){
let o=Ce(t,e,n);t.focused=o,o===null&&(t.range=null),$n(t,o)}function $n(t,e){t.selected=e,e!==null&&(t.dom.spoken.textContent=`selected ${ve(t.data,e)}`),ht(t),
O(t)}function On(t,e){let n=t.selected!==null&&t.focused===t.selected;Te(t,e),n&&t.focused!==null&&$n(t,t.focused)}function pl([t,e]){let n=Math.max((e-t)*.1,50);
return[t-n,e+n]}function Xr(t){let e=ot(t).parts.reverse().flatMap(({lanes:n})=>n);return[...e,...t.order.slice(t.order.indexOf(e[e.length-1])+1)]}function Ur(t){
return t.focusLane>=0?t.focusLane:Xr(t)[0]??-1}function ml(t){if(!t.dom.keys.hidden)fn(t.dom);else if(t.search!==null)t.dom.search.value="",_e(t,"");else if(t.focused!==
null&&t.focused!==t.selected)t.focused=null;else if(t.selected!==null||t.range!==null)Object.assign(t,{selected:null,range:null,focused:null}),ht(t);else return!1;
return t.isArmed=!1,O(t),!0}function _e(t,e){let n=Hr(t,e);return t.search=n,t.dom.matches.textContent=n&&`${C(n.count)} ${n.count===1?"match":"matches"}`,Tt(t),
n?.count??0}function gl(t,e){let{search:n}=t;if(n===null||n.count===0)return;let{found:o,ordinal:r}=Fr(t,n,e);n.at=o,t.dom.matches.textContent=`${C(r)} of ${C(n.
count)}`,t.selected=o,Te(t,o),ht(t)}function wl(t,e){let n=([s,a],c)=>{s&&En(t,Math.exp(-s*2.2*c),t.pointerX),a&&$e(t,a*900*c)};if(matchMedia("(prefers-reduced-\
motion: reduce)").matches){n(yn([e]),.12);return}if(t.held.has(e))return;t.held.add(e);let o=null,r=s=>{let a=o===null?.016666666666666666:Math.min(.05,(s-o)/1e3);
o=s,n(yn(t.held),a),t.beforeFrame=t.held.size?r:null,t.held.size&&O(t)};t.beforeFrame=r,O(t)}function jr(t){let{lanesButton:e,lanes:n}=t.dom;E(t,e,"click",()=>{t.lanesPanel??=bl(t),n.hidden=!n.hidden,e.setAttribute("aria-expanded",String(!n.hidden)),t.lanesPanel.
update()})}function bl(t){let e=t.data.header.lanes.map((o,r)=>yl(t,r)),n=h("ul",{"aria-label":"Lanes"});return t.dom.lanes.replaceChildren(n),{update(){let{activeElement:o}=document;
n.append(...t.order.map(r=>e[r].node));for(let r of e)r.update();o instanceof HTMLElement&&n.contains(o)&&o.focus()}}}function yl(t,e){let{label:n}=t.data.header.
lanes[e],o=(f,u,d)=>h("button",{type:"button",title:u,"aria-label":`${u}: ${n}`,onclick:d},f),r=o("Pin","Pin on top",()=>Oe(t,e)),s=o("\u2191","Move up",()=>Kt(
t,e,t.order.indexOf(e)-1)),a=o("\u2193","Move down",()=>Kt(t,e,t.order.indexOf(e)+1)),c=o("Fold","Fold to one row",()=>Gt(t,e));c.disabled=t.rows.heights[e]<2;let i=h(
"input",{type:"search",placeholder:"Filter names","aria-label":`Filter names: ${n}`});i.addEventListener("input",()=>Br(t,e,i.value));for(let f of[r,s,a,c,i])f.
setAttribute("data-lm-suppress-shortcuts","true");let l=h("span",{class:"cltl-lane",title:n},n);return{node:h("li",{},r,s,a,c,l,i),update(){r.setAttribute("aria\
-pressed",String(t.pinned.has(e))),c.setAttribute("aria-pressed",String(t.collapsed.has(e)))}}}var xl=460,kl=150,Ml="800px 0px";function qr(t,e,n={}){let o=wr(t,e,n),r=Wr(o);yr(o,r),xr(o,r),Al(o,r),Yr(o,o.mode),vl(o),St(o);let s=new ResizeObserver(()=>St(
o));s.observe(o.dom.frame);let a=new IntersectionObserver(c=>Lr(o,c[c.length-1].isIntersecting),{rootMargin:Ml});return a.observe(o.dom.frame),o.cleanups.push(()=>s.
disconnect(),()=>a.disconnect()),Ae(o),Tl(o,r)}function Yr(t,e){Object.assign(t,wn(e)),Go(t.dom.host,t.colors),Xo(t.dom,$r(t)),O(t)}function vl({dom:t,layout:e,
options:n}){let o=n.height??Math.min(xl,Math.max(kl,e.total+A));t.frame.style.height=`${Math.round(o)+2}px`}function Al(t,e){let{dom:n}=t;E(t,n.zoomIn,"click",()=>e.
zoom(.5,null)),E(t,n.zoomOut,"click",()=>e.zoom(2,null)),E(t,n.fit,"click",e.fit),E(t,n.keysButton,"click",e.showKeys),E(t,n.picture,"click",()=>Sl(t)),jr(t),E(
t,n.next,"click",()=>e.nextMatch(1)),E(t,n.previous,"click",()=>e.nextMatch(-1)),E(t,n.frame,"scroll",()=>O(t),{passive:!0})}function Sl({dom:t,colors:e}){let{canvas:n}=t,
o=h("canvas",{width:n.width,height:n.height}),r=N(o);r.fillStyle=e.bg,r.fillRect(0,0,o.width,o.height),r.drawImage(n,0,0),h("a",{href:o.toDataURL("image/png"),download:"\
timeline.png"}).click()}function Tl(t,e){return{setTheme:n=>Yr(t,n),fit:e.fit,zoomTo:(n,o)=>e.show([n,o]),getView:()=>[...t.view],select(n=null){t.selected=t.focused=
n,n!==null&&pt(t,n),O(t)},setRange(n,o=null){t.range=n===null||o===null?null:[n,o],O(t)},setNames(n){t.names=n===null?null:new Set(n),Tt(t)},beside:(n,o)=>Ee(t,
n,o),partnerOf:n=>Wt(t,n),raceOf:n=>t.races.find(o=>o.event===n&&n!==null)?.race??null,showRace:n=>Vr(t,t.races.find(o=>o.race===n)),showSync:n=>Vr(t,t.syncs.find(
o=>o.group===n)),setMarks(n){t.marks=n,O(t)},search(n){return t.dom.search.value=n,_e(t,n)},focus:()=>t.dom.canvas.focus({preventScroll:!0}),resize:()=>St(t),boxOf:n=>Ol(
t,n),stats:()=>({frames:t.script.length,script:[...t.script]}),destroy:()=>El(t)}}function El(t){t.isGone=!0,cancelAnimationFrame(t.pending);for(let e of t.cleanups.
splice(0))e();t.dom.host.remove()}function Vr(t,e){if(e){if(e.event>=0)t.focused=e.event,pt(t,e.event);else if(e.at<t.view[0]||e.at>t.view[1]){let n=(t.view[1]-
t.view[0])/2;Se(t,[e.at-n,e.at+n])}O(t)}}function Ol(t,e){let n=ot(t),o=t.data.lane[e];if(t.rows.row[e]>=t.layout.shown[o])return null;let r=n.x(t.data.start[e]),
s=t.data.dur[e]*n.scale;return{x:r,y:n.y(o,t.rows.row[e]),width:s,height:$-1}}var Cn="Source of ";var $l=/^(In\[\d+\])\((?:(\d+), )?(?:def )?(\d+)\): (.*)$/s;function Jr(t,e){let n=new Map;for(let o of e){let[,r,s,a,c]=o.match($l)??[],i=r&&Object.hasOwn(t,r)?
Cl(t[r],Number(a),c,Number(s)):"";if(i&&n.set(`${Cn}${c}, ${r}`,i),n.size===4)break}return[...n]}function Cl(t,e,n,o){let r=t.trimEnd().split(`
`);if(e<1||e>r.length)return"";let s=n==="<module>",[a,c]=s?[0,r.length]:[e-1,_l(r,e-1)],i=o>a+16?Math.min(o-16/2,c-16):a,l=r.slice(i,Math.min(c,i+16)).map((f,u)=>`${i+
u+1}${i+u+1===o?"\u203A":" "} ${f}`.trimEnd());return[...i>a?["\u2026"]:[],...l,...c>i+16?["\u2026"]:[]].join(`
`)}function _l(t,e){let n=Zr(t[e]),o=e;for(;o<t.length-1&&t[o].trimStart().startsWith("@");)o+=1;for(o+=1;o<t.length;o++){let r=t[o].trim();if(r&&Zr(t[o])<=n&&!/^[)\]}]/.
test(r))break}for(;o>e+1&&!t[o-1].trim();)o-=1;return o}function Zr(t){return t.length-t.trimStart().length}function Ll(t,e){let n=t.header.lanes[t.lane[e]],o=[["Kind",t.header.cats[t.cat[e]]],["Start",M(t.start[e])],["Duration",M(t.dur[e])]];return n.kind==="host"&&t.
self[e]!==t.dur[e]&&o.push(["Self time",M(t.self[e])]),o.push([n.kind==="device"?"Stream":"Thread",n.label]),t.launch[e]>=0&&o.push(...Rl(t,e)),o.push(...Fl(t,e)),
o.push(...Nl(t,e)),o.push(...Dl(t,e)),o.push(...Pl(t,e)),o.push(["Row",`trace.events.iloc[${t.rowOf(e)}]`]),o}function Rl(t,e){let n=t.launch[e];return[["Launch\
ed by",t.header.names[t.name[n]]],["Waited",M(t.start[e]-t.start[n])]]}var Il=60;function Nl(t,e){let n=[],o=t.detailOf("stack"),r=[],s=o(e),a=s!==null;for(let c=t.
launch[e]>=0?t.launch[e]:t.parent[e];c>=0;c=t.parent[c])s??=o(c),r.length<Il&&r.push(j(t.header,t.name[c]));return s!==null&&!a&&n.push(["Call stack",String(s)]),
r.length&&n.push(["Called from",r.join(`
`)]),n}function Pl(t,e){let n=t.detailOf("stack"),o=[],r=n(e);for(let s=t.launch[e]>=0?t.launch[e]:e;s>=0;s=t.parent[s])r??=n(s),o.push(t.header.names[t.name[s]]);
return Jr(t.header.cells,r===null?o:String(r).split(`
`))}var Hl={shapes:"Input shapes",dtypes:"Input dtypes",module:"Module",grid:"Grid",block_dim:"Block",registers:"Registers a thread",shared_memory_bytes:"Shared\
 memory",blocks_per_sm:"Blocks per SM",warps_per_sm:"Warps per SM",occupancy_pct:"Occupancy",num_bytes:"Bytes",flops:"FLOPs",step:"Step",correlation_id:"Correla\
tion id",external_id:"External id",sequence_nr:"Sequence number",graph_id:"CUDA graph",graph_node_id:"Graph node",collective:"Collective",process_group:"Process\
 group",stack:"Call stack"};function Fl(t,e){let n=[];for(let[o,r]of Object.entries(t.detail(e)))r===null||r===""||n.push([Hl[o]??o,Bl(o,r)]);return n}function Bl(t,e){
return t.endsWith("_bytes")?v(Number(e)):t==="occupancy_pct"?`${e} %`:typeof e=="number"?C(e):String(e)}var zl=[["stack","Call stack","--stacks (torch: with_sta\
ck=True)"],["shapes","Input shapes","--shapes (torch: record_shapes=True)"]];function Dl({header:t,cat:e},n){if(t.cats[e[n]]!=="cpu_op")return[];let o=new Set(t.
details.map(({name:r})=>r));return t.cats.includes("python_function")&&o.add("stack"),zl.filter(([r])=>!o.has(r)).map(([r,s,a])=>[s,t.dropped.includes(r)?"left \
out to keep this page small":`not recorded: add ${a}`])}function Ul(t,e,n,o){let r=u=>()=>n.set({event:u},"details"),s=(u,d,p)=>h("button",{class:"cl-button",type:"\
button",title:d,onclick:p},u),a=o?.partnerOf(e)??e,c=t.launch[e]>=0?"Go to launch":"Go to kernel",i=()=>n.set({range:[t.start[e],t.start[e]+t.dur[e]]},"details"),
[l,f]=o?[o.beside(e,"left"),o.beside(e,"right")]:[e,e];return[s("\u2039","Previous event of the lane (left arrow)",r(l)),s("\u203A","Next event of the lane (rig\
ht arrow)",r(f)),...a===e?[]:[s(c,"The other end of the launch arrow (Enter)",r(a))],...t.dur[e]?[s("Costs within","Narrow the table to the time of this event",
i)]:[],s("\u2715","Close (Escape)",r(null))]}function Qr(t,e,n,o,r){if(n===null){t.replaceChildren();return}let s=h("dl",{class:"cl-facts"});for(let[i,l]of Ll(e,
n))s.append(h("dt",{},i),h("dd",{class:i.startsWith(Cn)?"cl-source":""},l));let a=h("h3",{"aria-level":2,class:"cl-event"},e.header.names[e.name[n]]),c=h("span",
{class:"cl-event-buttons"},...Ul(e,n,o,r));t.replaceChildren(h("div",{class:"cl-event-head"},a,c),s)}var Wl=500;function ts(t,e,{onChange:n,onShow:o}){let r=h("ul",{class:"cl-mark-list","aria-label":"Marks"});t.replaceChildren(r);let s=l=>{a(l),n(l)},a=l=>{i.marks=
[...l].sort((f,u)=>f.at-u.at),t.hidden=l.length===0,r.replaceChildren(...i.marks.map(c))},c=l=>{let f=l.note||"(no note)",u=l.dur?`${M(l.at)}, ${M(l.dur)} long`:
M(l.at),d=()=>s(i.marks.filter(p=>p!==l));return h("li",{},h("button",{class:"cl-mark",type:"button",title:u,onclick:()=>o(l)},f),h("span",{class:"cl-hint"},u),
h("button",{type:"button","aria-label":`Remove the mark ${f}`,onclick:d},"\xD7"))},i={marks:[],add:l=>s([...i.marks,l]),replace:a};return a(e),i}function es(t,{
range:e,event:n},o){let r=e??(n===null?null:Gl(t,n));if(r===null)return[];let s=h("input",{class:"cl-note",type:"text",maxlength:Wl,placeholder:"Note","aria-lab\
el":"Note of the mark","data-lm-suppress-shortcuts":"true"}),a=()=>{o({at:Math.round(r[0]),dur:Math.round(r[1]-r[0]),note:s.value.trim()}),s.value=""};return s.
addEventListener("keydown",c=>{c.stopPropagation(),c.key==="Enter"&&a()}),[s,h("button",{class:"cl-button",type:"button",title:"Mark the selected time",onclick:a},
"Mark")]}function Gl({start:t,dur:e},n){return[t[n],t[n]+e[n]]}var _n={range:null,event:null,names:null};function rs(){let t=_n,e=new Set,n={get:()=>t,isEmpty:()=>Ln(t,_n),set(o,r){let s={...t,...o};if(s.names?.size===0&&(s.
names=null),!Ln(t,s)){t=s;for(let a of[...e])a(t,r)}},clear:o=>n.set(_n,o),subscribe(o){return e.add(o),()=>e.delete(o)}};return n}function Ln(t,e){return t.event===
e.event&&ns(t.range,e.range)&&ns(t.names,e.names)}function ns(t,e){if(t===null||e===null)return t===e;let[n,o]=[[...t],[...e]];return n.length===o.length&&n.every(
(r,s)=>r===o[s])}function Kl({n:t,parent:e,launch:n,lane:o,start:r,dur:s},a){let c=new Uint8Array(t);c[a]=1;let i=r[a]+s[a];for(let l=a+1;l<t&&o[l]===o[a]&&r[l]<=
i;l++)e[l]>=0&&c[e[l]]&&(c[l]=1);for(let l=0;l<t;l++)n[l]>=0&&c[n[l]]&&(c[l]=1);return c}var Xl=3,os=new WeakMap;function Q(t,e){let n=os.get(t)??[],o=n.find(s=>Ln(
s.selection,e));if(o)return o.mask;let r=jl(t,e);return os.set(t,[{selection:{...e},mask:r},...n].slice(0,Xl)),r}function jl(t,{range:e,event:n,names:o}){if(e===
null&&n===null&&o===null)return null;let r=n===null?new Uint8Array(t.n).fill(1):Kl(t,n);if(e!==null&&Vl(t,r,e),o===null)return r;let s=new Uint8Array(t.header.names.
length);for(let a of o)s[a]=1;for(let a=0;a<t.n;a++)r[a]&=s[t.name[a]];return r}function Vl({n:t,start:e,dur:n},o,[r,s]){for(let a=0;a<t;a++){let c=e[a],i=c+n[a];
(c===i?c<r||c>s:c>=s||i<=r)&&(o[a]=0)}}var ql=2e3;function ss(t,e){let{range:n,event:o,names:r}=e;if(o!==null)return Zl(t,e);let s=[];if(n){let i=u=>String(BigInt(t.header.t0)+BigInt(u)),[l,f]=[Math.
floor(n[0]),Math.ceil(n[1])];s.push(`((e.ts < ${i(f)}) & (e.ts + e.dur > ${i(l)}) & (e.dur > 0) | (e.dur == 0) & e.ts.between(${i(Math.ceil(n[0]))}, ${i(Math.floor(
n[1]))}))`)}r&&s.push(`e.name.isin(${Yl(t,r)})`);let{first_row:a}=t.header,c=a?`trace.events.iloc[${a}:]`:"trace.events";return s.length?`${c}[lambda e: ${s.join(
" & ")}]`:c}function Yl(t,e){let n=Rn(t,e);return n?`trace.events.name.iloc[[${n.join(", ")}]]`:Jl([...e].map(o=>t.header.names[o]))}function Rn(t,e){return t.header.
are_names_cut?[...e].map(n=>t.rowOf(t.name.indexOf(n))):null}function Zl(t,e){let n=Q(t,e),o=[];for(let s=0;s<t.n;s++)if(n?.[s]&&o.push(s),o.length>ql)return null;
return`trace.events.iloc[[${o.map(s=>t.rowOf(s)).sort((s,a)=>s-a).join(", ")}]]`}function Jl(t){let e=n=>JSON.stringify(n).replace(/[\u007f-\uffff]/g,o=>`\\u${o.
charCodeAt(0).toString(16).padStart(4,"0")}`);return`[${t.map(e).join(", ")}]`}var Ql={light:["#0b62c4","#b35c00","#6f42c1","#00796b","#b02f78","#5a7a0a","#a3301f"],dark:["#6cb6ff","#f0a050","#c4a5ff","#5fd0c0","#f08cc4","#b5d35a","#ff9a8a"]},
tf={light:"#4f6673",dark:"#a9bfca"};function Et(t,e){let n=t.startsWith("cpu")?null:/\d+$/.exec(t),o=Ql[e];return n?o[Number(n[0])%o.length]:tf[e]}function as({ts:t,values:e},[n,o]){let[r,s]=[0,t.length];for(;r+1<t.length&&t[r+1]<n;)r+=1;for(;s-2>r&&t[s-2]>o;)s-=1;return ef(t.subarray(r,s),e.subarray(r,s))}
function ef(t,e){let n=t.length;if(n<=4e3)return{ts:Array.from(t),values:Array.from(e)};let o=[0],r=(n-2)/(4e3/2-1);for(let s=0;s*r<n-2;s++){let[a,c]=[1+Math.floor(
s*r),Math.min(n-1,1+Math.floor((s+1)*r))],[i,l]=[a,a];for(let f=a;f<c;f++)e[f]<e[i]&&(i=f),e[f]>e[l]&&(l=f);a<c&&o.push(Math.min(i,l),...i===l?[]:[Math.max(i,l)])}
return o.push(n-1),{ts:o.map(s=>t[s]),values:o.map(s=>e[s])}}var us={light:{range:"#0b62c4",text:"#57606a",grid:"#d9dee4",fill:.14},dark:{range:"#6cb6ff",text:"#9aa5b1",grid:"#30363d",fill:.2}},nf=[[2**30,"GiB"],[2**20,"M\
iB"],[2**10,"KiB"],[1,"B"]],of=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"],[1,"ns"]],cs={displayModeBar:!1,responsive:!1,doubleClick:!1,showTips:!1};function In(t){return Math.
max(56,Math.round(Math.min(188,Math.max(132,t*.2),t*.35))-1)}function ds(t,e,{Plotly:n,theme:o,view:r,onRange:s}){let a=h("div",{class:"cl-plot"});t.replaceChildren(
a);let c=e.map(rf),i=is(r[1]-r[0],of),l=is(Math.max(...c.map(g=>g.value),1),nf),f={root:a,series:e,peaks:c,time:i,bytes:l,theme:o,range:null,view:r,width:0},u=n.
newPlot(a,ls(f),fs(f),cs).then(g=>{g.on("plotly_selected",m=>{m?.range&&s(sf(m.range.x,i[0]))}),g.on("plotly_deselect",()=>s(null)),g.on("plotly_doubleclick",()=>s(
null))}),d=async()=>{await u,a.isConnected&&await n.react(a,ls(f),fs(f),cs)},p=g=>(Object.assign(f,g),d());return{ready:u,setRange:g=>p({range:g}),setView:g=>p(
{view:g}),setTheme:g=>p({theme:g}),async resize(){await d(),a.isConnected&&a.clientWidth&&n.Plots.resize(a)},destroy:()=>u.then(()=>n.purge(a))}}function rf({ts:t,
values:e}){let n=0;for(let o=1;o<e.length;o++)e[o]>e[n]&&(n=o);return{ts:t[n],value:e[n]}}function is(t,e){return e.find(([n])=>t>=n)??e[e.length-1]}function sf(t,e){
let[n,o]=t.map(r=>r*e);return n===o?null:[Math.min(n,o),Math.max(n,o)]}function ls({series:t,view:e,theme:n,time:o,bytes:r}){return t.map(s=>{let a=as(s,e),c=Et(
s.label,n);return{type:"scatter",mode:"lines",name:af(s),x:a.ts.map(i=>i/o[0]),y:a.values.map(i=>i/r[0]),line:{shape:"hv",width:1.5,color:c},fill:t.length===1?"\
tozeroy":"none",fillcolor:`rgba(${vt(c).join(",")},${us[n].fill})`,text:a.values.map((i,l)=>`${v(i)} at ${M(a.ts[l])}`),hoverinfo:"text+name"}})}function af({label:t,
values:e}){return e.some(n=>n<0)?`${t} (change since the start)`:t}function fs(t){let{range:e,view:n,time:o,bytes:r}=t;t.width=t.root.clientWidth||t.width;let{text:s,
grid:a,range:c}=us[t.theme],i={gridcolor:a,zerolinecolor:a,linecolor:a,tickcolor:a,fixedrange:!0,separatethousands:!0};return{height:200,margin:{l:In(t.width),r:1,
t:22,b:34},paper_bgcolor:"rgba(0,0,0,0)",plot_bgcolor:"rgba(0,0,0,0)",font:{color:s,size:11,family:"inherit"},dragmode:"select",selectdirection:"h",showlegend:t.
series.length>1,legend:{orientation:"h",x:0,y:1.18},hovermode:"closest",newselection:{line:{color:s,width:1}},xaxis:{...i,range:n.map(l=>l/o[0]),ticksuffix:` ${o[1]}`},
yaxis:{...i,rangemode:"tozero",ticksuffix:` ${r[1]}`},shapes:e===null?[]:[lf(e,c,o[0])],annotations:cf(t)}}function cf({series:t,peaks:e,view:n,theme:o,time:r,bytes:s}){
return e.flatMap((a,c)=>{if(a.value<=0)return[];let i=Et(t[c].label,o);return{x:a.ts/r[0],y:a.value/s[0],text:`peak ${v(a.value)}`,showarrow:!0,arrowhead:0,arrowwidth:1,
ax:a.ts>(n[0]+n[1])/2?-44:44,ay:-14,bgcolor:"rgba(0,0,0,0)",font:{color:i,size:11},arrowcolor:i}})}function lf([t,e],n,o){return{type:"rect",xref:"x",yref:"pape\
r",x0:t/o,x1:e/o,y0:0,y1:1,fillcolor:n,opacity:.18,line:{width:1,color:n},layer:"below"}}var jt=44,hs=8,ff=2e3;function ps({unit:t,column:e},n){return n===void 0||Number.isNaN(n)?"-":e.endsWith("_bytes")?v(n):t==="%"?P(n):`${Math.round(n).toLocaleString(
"en-US")} ${t}`}function Nn(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function ms(t,e=0){return t.reduce((n,o)=>o>n?o:n,e)}
function gs(t,e,n,{theme:o,view:r}){let a=n.filter(({column:m})=>e.some(({values:w})=>w[m].some(y=>!Number.isNaN(y)))).map(m=>({gauge:m,largest:m.full??Math.max(
...e.map(({values:w})=>ms(w[m.column])),1e-9)})),c=h("p",{class:"cl-metrics-legend"}),l=z("svg",{class:"cl-metrics-plot",role:"img","aria-label":"Readings of th\
e GPUs over time"}),f=h("p",{class:"cl-metrics-tip cl-hint","aria-live":"off"}),u=z("path",{class:"cl-metrics-cursor",fill:"none"});t.replaceChildren(c,l,f);let d=`\
cl-metrics-${Math.random().toString(36).slice(2)}`,p=a.length*(jt+hs),g={host:t,devices:e,rows:a,id:d,height:p,legend:c,plot:l,cursor:u,tip:f,theme:o,view:r,width:0};
return l.addEventListener("pointermove",m=>hf(g,m)),l.addEventListener("pointerleave",()=>bs(g)),Le(g),{setView(m){g.view=m,Le(g)},setTheme(m){g.theme=m,Le(g)},
resize:()=>Le(g),destroy:()=>t.replaceChildren()}}function ws(t){let e=Math.max(t.host.clientWidth||t.width,200);t.width=e;let n=In(e),o=e-n-1,[r,s]=t.view;return{
width:e,gutter:n,inner:o,x:a=>n+(a-r)/(s-r)*o}}function Le(t){let{devices:e,height:n,id:o,legend:r,plot:s}=t,a=ws(t),c=e.length>1?e.map(({label:f})=>f):[];r.replaceChildren(
...c.map(f=>h("span",{style:`color:${Et(f,t.theme)}`},f)));let i=z("rect",{x:a.gutter,y:0,width:a.inner,height:n}),l=t.rows.map((f,u)=>uf(t,u,a));s.setAttribute(
"width",String(a.width)),s.setAttribute("height",String(n)),s.setAttribute("viewBox",`0 0 ${a.width} ${n}`),s.replaceChildren(z("clipPath",{id:o},i),...l,t.cursor)}
function uf({devices:t,rows:e,id:n,theme:o,view:r},s,{width:a,gutter:c,x:i}){let{gauge:l,largest:f}=e[s],u=s*(jt+hs),d=m=>u+jt-(jt-3)*Math.min(m/f,1),p=Math.max(
...t.map(({values:m})=>ms(m[l.column]))),g=t.map(({label:m,ts:w,values:y})=>z("path",{d:df(w,y[l.column],r,i,d),fill:"none",stroke:Et(m,o),"stroke-width":1.4}));
return z("g",{},z("text",{x:0,y:u+16},l.title),z("text",{x:0,y:u+31,class:"cl-metrics-muted"},`up to ${ps(l,p)}`),z("path",{d:`M${c} ${u+jt}H${a-1}`,class:"cl-m\
etrics-base"}),z("g",{"clip-path":`url(#${n})`},...g))}function df(t,e,[n,o],r,s){let a=Math.max(Nn(t,n),0),c=Math.min(Nn(t,o)+2,t.length),i=Math.max(1,Math.ceil(
(c-a)/ff)),l="";for(let f=a;f<c;f+=i){let u=f;for(let d=f;d<Math.min(f+i,c);d++)(e[d]>e[u]||Number.isNaN(e[u]))&&(u=d);Number.isNaN(e[u])||(l+=`${l?"L":"M"}${r(
t[u]).toFixed(1)} ${s(e[u]).toFixed(1)}`)}return l}function hf(t,e){let{gutter:n,inner:o}=ws(t),r=e.clientX-t.plot.getBoundingClientRect().left;if(r<n||r>n+o){bs(
t);return}let[s,a]=t.view,c=s+(r-n)/o*(a-s);t.cursor.setAttribute("d",`M${r.toFixed(1)} 0V${t.height}`);let i=t.devices.map(l=>pf(t,l,c));t.tip.textContent=[M(c),
...i].filter(Boolean).join(" \xB7 ")}function pf({devices:t,rows:e},{label:n,ts:o,values:r,slowed:s,reasons:a},c){let i=Nn(o,c);if(i<0)return"";let l=e.map(({gauge:f})=>ps(
f,r[f.column][i])).join(", ");return`${t.length>1?`${n}: `:""}${l}${s[i]?`, throttled by ${a[s[i]]}`:""}`}function bs({cursor:t,tip:e}){t.removeAttribute("d"),e.
textContent=""}function W(t,e,n,o){let r=e.map(([c,i])=>{let l=()=>{s(c),o(c)},f=String(c===n);return h("button",{type:"button",class:"cl-button","data-key":c,"aria-pressed":f,
onclick:l},i)}),s=c=>{for(let i of r)i.setAttribute("aria-pressed",String(i.dataset.key===c))};return{group:h("div",{class:"mm-choice",role:"group","aria-label":t},
h("span",{class:"mm-muted"},t),...r),mark:s}}function rt(t,e,n){let o=/[a-z]/i.test(t)?null:e;return h("button",{type:"button",class:"cl-button",title:e,"aria-l\
abel":o,onclick:n},t)}function ys(){let t=["allocated","active","reserved"].map(e=>h("span",{class:"mm-key"},h("i",{class:`mm-line-${e}`}),e));return h("p",{class:"\
mm-legend"},...t)}function xs(t,e){let n=mf(t,e),o={};for(let[r,s]of Object.entries(e.self)){let a=new Float64Array(t.parent.length);s.forEach((c,i)=>{a[n[i]]+=c});for(let c=a.length-
1;c>0;c--)a[t.parent[c]]+=a[c];o[r]=a}t.before=o}function mf(t,{parent:e,label:n}){let o=new Map;for(let s=1;s<t.parent.length;s++)o.set(`${t.parent[s]} ${t.labels[t.
label[s]]}`,s);let r=[];return e.forEach((s,a)=>{let c=s<0?0:r[s],i=`${c} ${n[a]}`,l=o.get(i)??gf(t,c,n[a]);o.set(i,l),r.push(l)}),r}function gf(t,e,n){let o=t.
parent.length;return t.parent.push(e),t.depth.push(t.depth[e]+1),t.label.push(t.labels.push(n)-1),t.sample.push(-1),t.children.push([]),t.children[e].push(o),o}var st=19,ks=420,wf=.8,Ms=4,bf=2,yf=.99,xf={light:["#f3b562","#f0a06a","#eec57c","#e9927a","#f6d08f"],dark:["#a8642a","#9c5230","#8f6b2f","#a14b3f","#b07a35"]},
vs={light:"#000000",dark:"#ffffff"},kf={light:"#b79cf0",dark:"#7a5cc4"};function As({parent:t,weight:e,children:n},o,r){let s=Mf(t,o,r),a=r/Math.max(e[o],1),c=[
{node:o,x:0,row:s.length}];for(let i=c.pop();i;i=c.pop()){let{x:l}=i,{row:f}=i;for(let u of[...n[i.node]].sort((d,p)=>e[p]-e[d])){let d=e[u]*a;if(d<wf)break;let p=i.
row<=bf?vf(n,e,u):[u],g=p.length>=Ms,m=g?p[p.length-1]:u;s.push({node:m,x:l,width:d,row:f,folded:g?p.length:0}),c.push({node:m,x:l,row:f+1}),l+=d}}return s}function Mf(t,e,n){
let o=[];for(let a=e;a>=0;a=t[a])o.unshift(a);let r=o.length>Ms+1;return(r?[o[0],t[e],e]:o).map((a,c)=>({node:a,x:0,width:n,row:c,folded:r&&c===1?o.length-2:0}))}
function vf(t,e,n){let o=[n];for(let r=n;;){let s=t[r].find(a=>e[a]>=yf*e[r]);if(s===void 0||!t[s].length)return o;o.push(s),r=s}}function Ss(t,e,n){let o=st*(1+
e.reduce((i,{row:l})=>Math.max(i,l),0)),r=Math.min(devicePixelRatio||1,2);t.width=Math.floor(n.width*r),t.height=Math.floor(o*r),t.style.width=`${n.width}px`,t.
style.height=`${o}px`;let s=N(t),a=getComputedStyle(t);s.scale(r,r),s.font=`11px ${a.fontFamily}`,s.textBaseline="middle";for(let i of e)Af(s,i,n);let c=e.find(
({node:i})=>i===n.focus);c&&Sf(s,c,a.color)}function Af(t,{node:e,x:n,width:o,row:r,folded:s},{graph:a,root:c,query:i,theme:l,options:f}){let u=s?`${s} callers,\
 to ${f.textOf(e)}`:f.textOf(e),d=i!==""&&u.toLowerCase().includes(i),p=e!==c&&r<=a.depth[c],[g,m]=Tf(a,e,u,l,f),w=r*st;if(t.globalAlpha=i&&!d?.4:p?.6:1,t.fillStyle=
d?kf[l]:g,t.fillRect(n,w,Math.max(o-1,.6),st-1),t.globalAlpha=1,o<=30)return;t.fillStyle=d||t.globalAlpha<1?vs[l]:m;let y=o-8,x=`${u}  ${f.format(a.weight[e])}`,
b=t.measureText(x).width<=y?x:ft(t,u,y);t.fillText(b,n+4,w+st/2)}function Sf(t,{x:e,width:n,row:o},r){t.strokeStyle=r,t.lineWidth=2,t.strokeRect(e+1,o*st+1,Math.
max(n-3,1),st-3)}function Tf({weight:t,before:e},n,o,r,{colorOf:s}){if(e){let c=(t[n]-e[n])/Math.max(t[n],e[n],1),i=Math.round(Math.min(1,Math.abs(c))*80),[l,f]=[
c>0?"#d1493f":"#2f6fd0",r==="dark"?"#4a525c":"#dfe3e8"];return[`color-mix(in srgb, ${l} ${i}%, ${f})`,r==="dark"||i>55?"#ffffff":"#000000"]}if(s)return n?s(n,o,
r):r==="dark"?["#4a525c","#ffffff"]:["#dfe3e8","#000000"];let a=xf[r];return[a[n?At(o)%a.length:0],vs[r]]}function Re(t,e){let n=Ef(t,e),o=h("div",{class:"mm-tools"},n.input,n.reset,n.found);return t.replaceChildren(o,n.stage,n.spoken),Cf(n),{show(r){n.graph?.parent!==
r.parent&&Object.assign(n,{root:0,focus:-1}),n.graph=r,n.reset.hidden=n.root===0,n.query&&Pn(n,n.input.value),Ot(n)},zoom:r=>Vt(n,r),search(r){n.input.value=r,Pn(
n,r)},get graph(){return n.graph},get root(){return n.root},boxes:()=>n.boxes,textOf:r=>n.graph?e.textOf(r):"",setTheme(r){n.theme=r,Ot(n)},resize(){t.clientWidth!==
n.width&&Ot(n)},destroy(){cancelAnimationFrame(n.pending),t.replaceChildren()}}}function Ef(t,e){let n=h("canvas",{class:"mm-flame-canvas",tabindex:0,role:"appl\
ication","aria-label":`${e.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,"data-lm-suppress-shortcuts":"true"}),o=h("div",{class:"mm-flame\
-scroll"},n);o.style.maxHeight=`${ks}px`;let r=h("div",{class:"mm-tip",hidden:!0});return{options:e,host:t,input:h("input",{type:"search",class:"mm-search",placeholder:e.
placeholder,"aria-label":e.searchLabel,"data-lm-suppress-shortcuts":"true"}),reset:h("button",{type:"button",class:"cl-button",hidden:!0},"Whole graph"),found:h(
"span",{class:"mm-muted","aria-live":"polite"}),scroller:o,stage:h("div",{class:"mm-flame-stage"},o,r),canvas:n,tip:r,spoken:h("p",{class:"mm-said","aria-live":"\
polite"}),theme:e.theme,graph:null,root:0,focus:-1,query:"",boxes:[],width:0,pending:0}}function Ot(t){let{graph:e}=t;t.pending||!e||(t.pending=requestAnimationFrame(
()=>{t.pending=0,Of(t)}))}function Of(t){let{canvas:e,options:n,graph:o,root:r,focus:s,query:a,theme:c}=t;o&&(t.width=Math.max(t.host.clientWidth||t.width,160),
t.boxes=As(o,r,t.width),Ss(e,t.boxes,{graph:o,root:r,focus:s,query:a,theme:c,width:t.width,options:n}))}function Vt(t,e){t.root=e,t.reset.hidden=e===0,t.tip.hidden=
!0,Ot(t),t.options.onZoom(e)}function Pn(t,e){t.query=e.trim().toLowerCase(),Ot(t),t.found.textContent=t.query&&t.graph?$f(t,t.graph):""}function $f({options:t,
query:e},n){let o=n.parent.length,[r,s]=[new Uint8Array(o),new Uint8Array(o)],[a,c]=[0,0];for(let i=1;i<o;i++){let l=n.parent[i];r[i]=t.textOf(i).toLowerCase().
includes(e)?1:0,s[i]=s[l]||r[l]?1:0,!(!r[i]||s[i])&&(a+=n.weight[i],c+=n.num[i])}return c?Ts(t,n,a,c):"nothing fits"}function Ts(t,e,n,o){let r=e.weight[0]?100*
n/e.weight[0]:0;return t.amountOf(n,o).replace("%",P(r))}function Cf(t){let{canvas:e,tip:n,input:o}=t;t.reset.addEventListener("click",()=>Vt(t,0)),o.addEventListener(
"input",()=>Pn(t,o.value)),e.addEventListener("click",r=>{let s=Es(t,r);s&&Vt(t,s.node)}),e.addEventListener("pointermove",r=>_f(t,r)),e.addEventListener("point\
erleave",()=>{n.hidden=!0}),e.addEventListener("keydown",r=>{!t.graph||r.altKey||r.ctrlKey||r.metaKey||Rf(t,t.graph,r.key)&&(r.preventDefault(),r.stopPropagation())})}
function Es({canvas:t,boxes:e},n){let o=t.getBoundingClientRect(),[r,s]=[n.clientX-o.left,Math.floor((n.clientY-o.top)/st)];return e.find(a=>a.row===s&&a.x<=r&&
r<a.x+Math.max(a.width,1))}function _f(t,e){let{tip:n,graph:o,stage:r}=t,s=Es(t,e);if(n.hidden=!s,!s||!o)return;n.replaceChildren(...Os(t,o,s.node).map(c=>h("di\
v",{},c)));let a=r.getBoundingClientRect();n.style.left=`${Math.max(Math.min(e.clientX-a.left+12,t.width-n.offsetWidth-4),0)}px`,n.style.top=`${e.clientY-a.top+
16}px`}function Os({options:t},e,n){let o=[t.textOf(n),Ts(t,e,e.weight[n],e.num[n])];if(e.before){let r=e.weight[n]-e.before[n];o.push(`${r<0?"\u2212":"+"}${t.format(
Math.abs(r))} against the other run`)}return[...o,...t.notesOf?.(n)??[]].filter(Boolean)}function Lf({boxes:t,focus:e},{parent:n},o){let r=t.find(({node:i})=>i===
e)??t[0],s=t.filter(i=>i.row===r.row).sort((i,l)=>i.x-l.x),a=i=>s[Math.min(Math.max(s.indexOf(r)+i,0),s.length-1)].node;if(o==="ArrowUp")return Math.max(n[r.node],
0);if(o==="ArrowLeft")return a(-1);if(o==="ArrowRight")return a(1);if(o!=="ArrowDown")return null;let c=t.filter(({node:i})=>n[i]===r.node).sort((i,l)=>l.width-
i.width);return c.length?c[0].node:r.node}function Rf(t,e,n){let o=Lf(t,e,n);if(o!==null)t.focus=t.focus<0?t.boxes[0].node:o,t.spoken.textContent=Os(t,e,t.focus).
join(", "),Ot(t);else if((n==="Enter"||n===" ")&&t.focus>=0)Vt(t,t.focus);else if(n==="Escape"&&t.root)Vt(t,0);else return!1;return!0}function $s(t){let{labels:e,nodeOf:n}=t,o={parent:[-1],depth:[0],label:[-1],labels:e,sample:[-1],nodeOf:n,children:[[]]},r=new Map,s=new Int32Array(t.parent.length);
for(let a=1;a<s.length;a++){let c=0,i=0;for(let l=a;l>0&&i<64;l=t.parent[l],i++)c=If(o,r,c,t.label[l],i?-1:t.sample[a]);s[a]=c}return o.nodeOf=n.map(a=>a>0?s[a]:
a),t.before&&(o.before=Nf(t,o,s,t.before)),o}function If(t,e,n,o,r){let s=`${n} ${o}`,a=e.get(s);return a===void 0&&(a=t.parent.length,e.set(s,a),t.parent.push(
n),t.depth.push(t.depth[n]+1),t.label.push(o),t.sample.push(r),t.children.push([]),t.children[n].push(a)),t.sample[a]<0&&(t.sample[a]=r),a}function Nf(t,e,n,o){
let r={};for(let[s,a]of Object.entries(o)){let c=a.slice();for(let l=1;l<c.length;l++)c[t.parent[l]]-=a[l];let i=new Float64Array(e.parent.length);for(let l=0;l<
c.length;l++)i[n[l]]+=c[l];for(let l=i.length-1;l>0;l--)i[e.parent[l]]+=i[l];r[s]=i}return r}var Pf=new Set(["kernel","gpu_memcpy","gpu_memset"]);function Cs(t){let e=o=>t.header.details.some(r=>r.name===o);return[["tree","call tree",!0],["python","Pyth\
on",t.header.cats.includes("python_function")],["stack","call stacks",e("stack")],["module","modules",e("module")]].flatMap(([o,r,s])=>s?[[o,r]]:[])}function _s(t,e){
let n=Hf(t),{n:o,header:r}=t,s=r.lanes.map(({kind:w})=>w==="device"),a=e==="stack"||e==="module"?Ff(n,t,e):null,c=r.cats.map(w=>w==="python_function"),i=r.cats.
map(w=>w==="Trace"||w==="overhead");for(let w=0;w<o;w++){if(s[t.lane[w]]||i[t.cat[w]])continue;let y=a?a(w):-1,x=t.parent[w]<0?-1:n.nodeOf[t.parent[w]],b=y>=0?y:
x>=0?x:a?n.none:0;n.nodeOf[w]=e==="python"&&!c[t.cat[w]]?b:n.add(b,n.labelOf[t.name[w]],w)}let l=r.cats.map(w=>Pf.has(w));for(let w=0;w<o;w++){if(!s[t.lane[w]]||
!l[t.cat[w]]||t.flags[w]&L.instant)continue;let y=t.launch[w],x=a?n.add(0,n.text("(no launch)"),-1):0,b=y<0?x:Math.max(n.nodeOf[y],0);n.nodeOf[w]=n.add(b,n.labelOf[t.
name[w]],w)}let{parent:f,depth:u,label:d,labels:p,sample:g,nodeOf:m}=n;return{parent:f,depth:u,label:d,labels:p,sample:g,nodeOf:m,children:Bf(f)}}function Hf(t){
let e=[...t.header.names],[n,o]=[new Set(t.header.step_names),e.length];n.size&&e.push("ProfilerStep*");let r=new Map,s=new Map,a=2**24,c={parent:[-1],depth:[0],
label:[-1],sample:[-1],labels:e,labelOf:t.header.names.map((i,l)=>n.has(l)?o:l),nodeOf:new Int32Array(t.n).fill(-1),none:0,text(i){let l=s.get(i)??e.push(i)-1;return s.
set(i,l),l},add(i,l,f){let u=i*a+l,d=r.get(u);return d===void 0&&(d=c.parent.length,r.set(u,d),c.parent.push(i),c.depth.push(c.depth[i]+1),c.label.push(l),c.sample.
push(f)),d}};return c}function Ff(t,e,n){t.none=t.add(0,t.text(`(no ${n})`),-1);let o=new Map,r=e.detailOf(n);return s=>{let a=r(s);if(a===null)return-1;let c=String(
a),i=o.get(c);return i===void 0&&(i=(n==="stack"?c.split(`
`).reverse():c.split(".")).filter(Boolean).reduce((f,u)=>t.add(f,t.text(u),-1),0),o.set(c,i)),i}}function Bf(t){let e=t.map(()=>[]);for(let n=1;n<t.length;n++)e[t[n]].
push(n);return e}function Hn(t,{label:e,labels:n},o){return o?e[o]<t.header.names.length?j(t.header,e[o]):n[e[o]]:"all"}function Ls({header:t,memory:e}){let n=[];t.lanes.some(({kind:s,count:a})=>s==="device"&&a)&&n.push(["device","GPU time"]),t.lanes.some(({kind:s,count:a})=>s===
"host"&&a)&&n.push(["host","CPU time"]);let{n:o,num_actions:r}=t.memory;return o===r&&e.some(({event:s})=>s.some(a=>a>=0))&&n.push(["memory","allocated bytes"]),
n}function*Rs(t,e,n,o,r){let{parent:s,nodeOf:a}=e,c={weight:new Float64Array(s.length),num:new Float64Array(s.length)};n==="memory"?Gf(t,a,o,r,c):yield*zf(t,a,n===
"device",o,r,c);let{weight:i,num:l}=c;for(let f=s.length-1;f>0;f--)i[s[f]]+=i[f],l[s[f]]+=l[f];return c}function*zf(t,e,n,o,r,s){let a=r?yield*Uf(t,n,r):n?t.dur:
t.self;for(let[c,i]of Is(t,n))Df(t,e,o,a,s,c,i),yield}function Df({flags:t},e,n,o,{weight:r,num:s},a,c){let i=L.instant|L.waiting;for(let l=a;l<c;l++){let f=e[l];
f<0||t[l]&i||n!==null&&!n[l]||(o[l]>0&&(r[f]+=o[l]),s[f]+=1)}}function*Uf(t,e,n){let o=new Float64Array(t.n);for(let[r,s]of Is(t,e))t.start[r]>=n[1]||(Wf(t,n,o,
r,s),yield);return o}function Wf({start:t,dur:e,parent:n},[o,r],s,a,c){for(let i=a;i<c&&t[i]<r;i++){let l=t[i]+e[i];if(l<=o)continue;let f=Math.min(l,r)-Math.max(
t[i],o);s[i]+=f,n[i]>=0&&(s[n[i]]-=f)}}function*Is({header:t},e){let n=0;for(let{kind:o,count:r}of t.lanes)o==="device"===e&&(yield*ut(n,n+r)),n+=r}function Gf({
memory:t},e,n,o,{weight:r,num:s}){let a=t.filter(({label:c})=>c!=="cpu");for(let{ts:c,bytes:i,action:l,actions:f,event:u}of a.length?a:t)for(let d=0;d<c.length;d++){
let p=u[d]<0?-1:e[u[d]];p<0||!f[l[d]].startsWith("alloc")||!(i[d]>0)||n!==null&&!n[u[d]]||o!==null&&(c[d]<o[0]||c[d]>o[1])||(r[p]+=i[d],s[p]+=1)}}var Kf=[["callers","callers down"],["calls","who calls it"]];function Ns(t,e,{theme:n,baseline:o,onEvent:r}){let[s,a]=[Cs(e),Ls(e)],c={data:e,known:new Map,isInverted:!1,
by:s[0][0],weight:a[0]?.[0]??"host",selection:{range:null,event:null,names:null},isCompared:o!==null,baseline:o,tones:zt(n)},i=b=>{Object.assign(c,b),V(x())},l=W(
"By",s,c.by,b=>i({by:b})),f=W("Width",a,c.weight,b=>i({weight:b})),u=W("From",Kf,"callers",b=>i({isInverted:b==="calls"})),d=rt("Show in the timeline","Select t\
he longest call of this node in the timeline",()=>{let b=Jf(c,m.root);b>=0&&r(b)}),p=h("p",{class:"mm-muted cl-flame-note",role:"status"}),g=h("div",{class:"cl-\
flame-graph"});t.replaceChildren(h("div",{class:"mm-tools"},l.group,f.group,u.group,...jf(c,i),d),p,g);let m=Re(g,{theme:n,label:"Costs by call path",placeholder:"\
Search names",searchLabel:"Search call paths",textOf:b=>Hn(e,mt(c),b),amountOf:(b,S)=>`${Fn(c)(b)} (%), ${_(S,qf(c))}`,format:b=>Fn(c)(b),notesOf:b=>[Yf(c,b)],colorOf:(b,S)=>Zf(
c,b,S),onZoom(b){d.hidden=b===0}});d.hidden=!0;let w=!1,y=0;function*x(){if(w=t.hidden===!0,y+=1,w)return;let b=y,S=mt(c),I=Q(e,{...c.selection,names:null}),{weight:k,
num:H}=yield*Rs(e,S,c.weight,I,c.selection.range);if(b!==y)return;let lt={parent:S.parent,depth:S.depth,children:S.children,weight:k,num:H},oe=Xf(c,S);m.show(oe?
{...lt,before:oe}:lt),p.textContent=Vf(c,k[0])}return V(x()),{flame:m,get paths(){return mt(c)},*update(b){c.selection=b,yield*x()},shown(){w?V(x()):m.resize()},
setGrouping(b){l.mark(b),i({by:b})},setInverted(b){u.mark(b?"calls":"callers"),i({isInverted:b})},setWeight(b){f.mark(b),i({weight:b})},setTheme(b){c.tones=zt(b),
m.setTheme(b)},resize:()=>m.resize(),destroy:()=>m.destroy()}}function mt(t){let{data:e,known:n,by:o,baseline:r,isInverted:s}=t,a=s?`${o}, inverted`:o,c=n.get(a);
if(c)return c;let i;return s?i=$s(mt({...t,isInverted:!1})):(i=_s(e,o),r&&o==="tree"&&xs(i,r)),n.set(a,i),i}function Xf({by:t,weight:e,selection:n,isCompared:o},r){
if(!(!o||t!=="tree"||n.range||n.event!==null))return r.before?.[e]}function jf(t,e){if(!t.baseline)return[];let n=[["yes",`against ${t.baseline.name}`],["no","t\
his run"]];return[W("Colours",n,"yes",o=>e({isCompared:o==="yes"})).group]}function Vf(t,e){let{range:n,event:o}=t.selection,r=n?`of the selected ${M(n[1]-n[0])}`:
o===null?"of the whole trace":"within the selected event",s=t.isCompared&&t.baseline&&t.by==="tree"?"; red: more than in the other run, blue: less":"";return`${Fn(
t)(e)} ${r}${s}`}function Fn({weight:t}){return t==="memory"?v:M}function qf({weight:t}){return t==="memory"?"allocation":t==="device"?"kernel":"call"}function Yf(t,e){
let n=mt(t),o=e?n.labels[n.label[e]]:"";return o===Hn(t.data,n,e)?"":o.slice(0,400)}function Zf(t,e,n){let o=mt(t).sample[e],{data:r,tones:s}=t,a=o<0?"python_fu\
nction":r.header.cats[r.cat[o]],c=me(a,n)*q+At(n)%q;return[s.css[c],s.ink[c]]}function Jf(t,e){let{data:n}=t,{parent:o,nodeOf:r}=mt(t),s=new Uint8Array(o.length);
s[e]=1;for(let i=e+1;i<o.length;i++)s[i]=s[o[i]];let[a,c]=[-1,-1];for(let i=0;i<n.n;i++)r[i]<0||!s[r[i]]||((a<0||n.dur[i]>n.dur[a])&&(a=i),r[i]===e&&(c<0||n.dur[i]>
n.dur[c])&&(c=i));return c>=0?c:a}var Qf=new Set(["article","b","code","dd","details","div","dl","dt","h4","li","ol","p","pre","span","strong","summary","table","tbody","td","th","thead","tr","u\
l"]),tu=new Set(["svg","title","rect","path","text"]),eu=new Set(["class","colspan","scope","role","tabindex","open","title","aria-hidden","aria-label","viewBox",
"width","height","preserveAspectRatio","x","y","rx","d","fill","fill-opacity","stroke","stroke-width","stroke-opacity","stroke-dasharray","opacity","data-event",
"data-depth","data-label","data-wide","font-family","font-size","font-weight","text-anchor"]);function nu(t){return typeof t=="string"?document.createTextNode(t):
G(t)}function G([t,e,...n]){let o=tu.has(t);if(!o&&!Qf.has(t))throw new Error(`cudalens markup: the element ${t} is not known here`);let r=o?document.createElementNS(
an,t):document.createElement(t);for(let[s,a]of Object.entries(e))eu.has(s)&&r.setAttribute(s,a);return t==="h4"&&r.setAttribute("aria-level","3"),r.append(...n.
map(nu)),r}var Ie="details.cg-fold",Ps="details.cg-row";function Hs(t,e){let n={model:e,host:t,traced:null,paths:[]};t.replaceChildren(...e.body.map(G));let[o]=R(t,".cg-fr\
ame",HTMLElement);return o&&(o.querySelectorAll(".cg-stop, .cg-fold").length>1&&o.before(ou(o)),o.addEventListener("keydown",r=>su(r,o))),au(n),{trace:r=>Bs(n,r),
setTheme(){},destroy:()=>t.replaceChildren()}}function ou(t){let e=(r,s)=>{for(let a of R(t,r,HTMLDetailsElement))a.open=s},n=(r,s)=>h("button",{type:"button",class:"\
cl-button",onclick:s},r),o=h("div",{class:"cg-tools",role:"group","aria-label":"Graph tree"});return t.querySelector(Ie)&&o.append(n("Unfold all",()=>e(Ie,!0))),
o.append(n("Open all",()=>e(Ps,!0)),n("Close all",()=>{e(Ps,!1),e(Ie,!1)})),t.querySelector(".cg-stop.is-current")&&o.append(n("Go to current",()=>ru(t))),o}function ru(t){
let[e]=R(t,".cg-stop.is-current > .cg-row > summary",HTMLElement);e&&(Fs(e),e.focus({preventScroll:!0}),Bn(t,e))}function Fs(t){for(let e=t;e;e=e.parentElement)
e instanceof HTMLDetailsElement&&e.matches(Ie)&&(e.open=!0)}function Bn(t,e){let n=e.getBoundingClientRect().top-t.getBoundingClientRect().top;(n<0||n+e.offsetHeight>
t.clientHeight)&&(t.scrollTop+=n-t.clientHeight/3)}function su(t,e){let n=t.target;if(!(n instanceof HTMLElement)||n.tagName!=="SUMMARY"||t.ctrlKey||t.metaKey||
t.altKey)return;let o=R(e,"summary",HTMLElement).filter(c=>c.getClientRects().length),r=o.indexOf(n),s={ArrowDown:r+1,ArrowUp:r-1,Home:0,End:o.length-1},a=t.key===
"ArrowRight";if(t.key in s){let c=o[Math.min(Math.max(s[t.key],0),o.length-1)];c.focus({preventScroll:!0}),Bn(e,c)}else if(a||t.key==="ArrowLeft")n.parentElement?.
toggleAttribute("open",a);else return;t.preventDefault(),t.stopPropagation()}function au(t){let e=[...t.host.querySelectorAll(".cudalens-graph-paths li")].slice(
0,t.model.paths.length);t.paths=e.map((n,o)=>{let a=h("button",{type:"button","aria-pressed":"false",title:"Show this path in the tree",onclick:()=>Bs(t,t.traced===
o?null:o)});return a.append(...n.childNodes),n.replaceChildren(a),a})}function Bs(t,e){let{host:n,model:o,paths:r}=t;t.traced=e;for(let[i,l]of r.entries())l.setAttribute(
"aria-pressed",String(i===e));for(let i of n.querySelectorAll(".is-traced"))i.classList.remove("is-traced");let a=(e===null?[]:o.paths[e]??[]).flatMap(i=>R(n,`.\
cg-n${Number(i)}`,HTMLElement).slice(0,1));for(let i of a)i.classList.add("is-traced"),Fs(i);let[c]=R(n,".cg-frame",HTMLElement);a.length&&Bn(c,a[0])}function Ne(t,e){let n=cu(t,e),{allocated_bytes:o,active_bytes:r,reserved_bytes:s}=t.header.devices[e];return{allocated:zn(n.allocated,o),active:zn(n.active,r),
reserved:zn(n.reserved,s)}}function cu({allocations:t,pieces:e,numRows:n,header:o,rest:r},s){let[a,c,i]=[0,1,2].map(()=>new Float64Array(n+1)),l=(u,d,p)=>{d>=0&&
d<n&&(u[d+1]+=p)};for(let u=0;u<t.n;u++){if(t.device[u]!==s)continue;let d=t.bytes[u];l(c,t.alloc[u],d),l(c,t.done[u],-d),l(a,t.alloc[u],d),l(a,t.released[u],-d)}
for(let u=0;u<e.n;u++)e.device[u]===s&&(l(i,e.added[u],e.bytes[u]),l(i,e.removed[u],-e.bytes[u]));let f=r.active.length/Math.max(o.devices.length,1);for(let u=0;u<
f;u++){let d=Math.min((u+1)*o.hidden.stretch,n)-1;l(a,d,r.allocated[s*f+u]),l(c,d,r.active[s*f+u])}return{allocated:a,active:c,reserved:i}}function zn(t,e){let n=e-
t.reduce((o,r)=>o+r,0);for(let o=0;o<t.length;o++)n+=t[o],t[o]=n;return t}function Pe(t){let e=0;for(let n=1;n<t.length;n++)t[n]>t[e]&&(e=n);return e-1}var Dn=2147483647;async function Yt(t,e,n){let o=await Promise.all(n.map(r=>B(t,`${e}.${r}`)));return Object.fromEntries(n.map((r,s)=>[r,o[s]]))}function qt(t){
let e=new Float64Array(t.length),n=0;for(let o=0;o<t.length;o++)n+=t[o],e[o]=n;return e}var iu=["addr","device","pool","units","is_asked","spare","alloc","relea\
sed","done","stack","category","block","facts"];async function lu(t,e){let[n,o]=await Promise.all([Yt(t,"allocation",iu),B(t,"addr.steps")]),r=qt(o),s=n.addr.length,
a=Float64Array.from(n.units,f=>f*e.unit),c=Int32Array.from(qt(n.alloc),f=>f-1),i=c.map((f,u)=>n.released[u]?f+n.released[u]-1:Dn),l=c.map((f,u)=>n.done[u]?(n.released[u]?
i[u]:f)+n.done[u]-1:Dn);return{n:s,addr:Float64Array.from(n.addr,f=>r[f]),bytes:a,requested:a.map((f,u)=>n.is_asked[u]?f-n.spare[u]:Number.NaN),device:n.device,
pool:n.pool,category:n.category,facts:n.facts,alloc:c,released:i,done:l,stack:Int32Array.from(n.stack,f=>f-1),block:Int32Array.from(qt(n.block),f=>f-1),byAddress:fu(
n.addr,r.length)}}function fu(t,e){let n=new Uint32Array(e+1);for(let r=0;r<t.length;r++)n[t[r]+1]++;for(let r=0;r<e;r++)n[r+1]+=n[r];let o=new Int32Array(t.length);
for(let r=0;r<t.length;r++)o[n[t[r]]++]=r;return o}var uu=["addr","device","pool","units","added","removed","kind","grows"];async function du(t,e){let{addr:n,units:o,
added:r,removed:s,device:a,pool:c,kind:i,grows:l}=await Yt(t,"piece",uu);return{n:n.length,addr:qt(n),bytes:Float64Array.from(o,f=>f*e.piece_unit),added:Int32Array.
from(r,f=>f-1),removed:Int32Array.from(s,f=>f?f-2:Dn),device:a,pool:c,kind:i,grows:l}}async function hu(t){let[e,n,o,r]=await Promise.all([Yt(t,"frame",["file",
"line","function"]),Yt(t,"stack",["sizes","frames"]),nt(t,"files"),nt(t,"functions")]),s=qt(n.sizes);return{n:n.sizes.length,numFrames:e.line.length,frameAt:a=>({
file:o[e.file[a]],line:e.line[a]-1,name:r[e.function[a]]}),idsOf:a=>n.frames.subarray(s[a]-n.sizes[a],s[a])}}async function pu(t,e){let n=await B(t,"clock.steps");
if(!e.has_times)return null;let o=new Float64Array(e.num_rows);for(let r=1;r<o.length;r++)o[r]=o[r-1]+n[r-1]*e.time_unit;return o}function He({file:t,line:e,name:n}){
let o=t?`${t.split(/[\\/]/).at(-1)}${e>=0?`:${e}`:""}`:"";return[n||"?",o].filter(Boolean).join(" ")}async function zs(t){let e=await ae(t),{header:n}=e,[o,r,s,
a,c,i]=await Promise.all([lu(e,n),du(e,n),hu(e),Yt(e,"rest",["allocated","active"]),pu(e,n),nt(e,"facts")]);return{header:n,numRows:n.num_rows,allocations:o,pieces:r,
stacks:s,facts:i.map(l=>l?JSON.parse(l):{}),clock:c,rest:a}}var mu=[["category","category"],["stack","call stack"],["pool","pool and stream"],["names","variable"],["cell","cell"]];function $t({stream:t,pool:e,graphs:n}){
let[o,r]=e,a=!o&&!r?"default pool":`private pool (${o??"?"}, ${r??"?"})`,c=n.length?` of ${n.join(", ")}`:"";return`${a}${c}, stream ${t??"not recorded"}`}function Un({
stacks:t},e){if(e<0)return"stack not recorded";let n=[...t.idsOf(e)].map(t.frameAt),o=n.find(gu)??n.find(({file:r})=>r.endsWith(".py"))??n[0];return o?He(o):"st\
ack not recorded"}function gu({file:t,name:e}){return(t.endsWith(".py")||t.startsWith("In[")||t.startsWith("<"))&&!/[\\/](torch|site-packages|dist-packages)[\\/]/.
test(t)&&e!==""}function Fe({facts:t}){let e=n=>t.some(o=>n in o);return mu.filter(([n])=>n!=="names"&&n!=="cell"||e(n))}function Be({allocations:t,facts:e},n){
let o=t.facts[n];return o?e[o-1]:{}}function Ct(t,e){let{names:n}=Be(t,e);if(!n)return[];try{return JSON.parse(n).map(String)}catch{return[n]}}function Wn(t,e,n){
return n==="names"?Ct(t,e)[0]??"":n==="cell"?Be(t,e).cell??"":t.allocations[n][e]}function wu(t,e,n){let{categories:o,pools:r}=t.header;if(n==="names")return String(
e)||"no variable";if(n==="cell")return String(e)||"not recorded";let s=Number(e);return n==="stack"?Un(t,s):n==="pool"?$t(r[s]):s?o[s-1]:"not known"}function Zt(t,e,n){
let o=new Map;for(let r of e){let s=Wn(t,r,n),a=o.get(s)??{key:s,label:wu(t,s,n),bytes:0,num:0};a.bytes+=t.allocations.bytes[r],a.num+=1,o.set(s,a)}return[...o.
values()].sort((r,s)=>s.bytes-r.bytes)}function _t(t,e,n){let{allocations:o}=t,r=yu(o,e,n),s=bu(t.pieces,e,n),a=xu(o,r,s);ku(a,o,r,n),n===t.numRows-1&&Mu(a,t,e);let c=s.reduce((i,{first:l,end:f})=>i+
f-l,0);return{device:e,row:n,allocations:r,strips:s,sums:a,outside:r.length-c}}function bu(t,e,n){let o=[];for(let r=0;r<t.n;r++){if(t.device[r]!==e||t.added[r]>
n||t.removed[r]<=n)continue;let[s,a,c,i]=[t.addr[r],t.bytes[r],t.pool[r],t.kind[r]],l=o.at(-1);l&&l.pool===c&&l.addr+l.bytes===s&&t.grows[r]&&l.grows?l.bytes+=a:
o.push({addr:s,bytes:a,pool:c,kind:i,grows:t.grows[r],first:0,end:0,used:0})}return o}function yu(t,e,n){let o=new Int32Array(t.n),r=0;for(let s=0;s<t.n;s++){let a=t.
byAddress[s];t.alloc[a]<=n&&n<t.done[a]&&t.device[a]===e&&(o[r++]=a)}return o.slice(0,r)}function xu(t,e,n){let o={reserved:0,active:0,allocated:0,pending:0,internal:0,
external:0,empty:0,largest:0},r=0;for(let s of n){let a=s.addr+s.bytes;for(;r<e.length&&t.addr[e[r]]<s.addr;)r++;s.first=r;let c=s.addr,i=0;for(;r<e.length&&t.addr[e[r]]<
a;r++){let l=e[r];i=Math.max(i,t.addr[l]-c),c=t.addr[l]+t.bytes[l],s.used+=t.bytes[l]}s.end=r,o.reserved+=s.bytes,o.largest=Math.max(o.largest,i,a-c),o[s.used?"\
external":"empty"]+=Math.max(s.bytes-s.used,0)}return o}function ku(t,{bytes:e,released:n,requested:o},r,s){for(let a of r)t.active+=e[a],n[a]<=s?t.pending+=e[a]:
t.allocated+=e[a],Number.isNaN(o[a])||(t.internal+=e[a]-o[a])}function Mu(t,{header:e},n){let{end:o,allocated_bytes:r,active_bytes:s,reserved_bytes:a}=e.devices[n];
Object.assign(t,o??{},{allocated:r,active:s,reserved:a}),t.pending=t.active-t.allocated}var Lt=["#0072b2","#e69f00","#009e73","#cc79a7","#56b4e9","#d55e00","#b8a400","#7a5cc4","#8c6d46","#3fb8a0","#c2476b"],ze={light:"#9aa4af",dark:"#6f7b87"},vu={light:[
"#fde08a","#f5ae4d","#e0733f","#b3404f","#7b2764","#421a5c"],dark:["#fff1b8","#fbc15e","#f08a4b","#d2555f","#a04a8f","#6d4fb0"]},Ws={light:{gap:[238,241,245],hatch:[
188,197,207],dim:[214,220,227]},dark:{gap:[33,39,46],hatch:[73,84,96],dim:[52,60,69]}},Gs={category:"Category",stream:"Stream",age:"Age",stack:"Call stack"},Au={
category:Xs,stream:js,age:Tu,stack:Eu};function Rt([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}function Ks(t,e,n,o){let r=Au[n](t,e,o),s=r.css.map(vt);return{...r,
rgb:s,pixels:Uint32Array.from(s,Rt),edges:Uint32Array.from(s,a=>Rt(Su(a,o)))}}function Su(t,e){let n=e==="dark"?0:255,[o,r,s]=t.map(a=>Math.round(a+(n-a)*.45));
return[o,r,s]}function Xs(t,e,n){let{categories:o}=t.header,r=[ze[n],...o.map((a,c)=>Lt[c%Lt.length])],s=Zt(t,e.allocations,"category");return{css:r,of:a=>t.allocations.
category[a],legend:s.map(({key:a,label:c})=>({css:r[Number(a)],label:c}))}}function js({header:t,allocations:e},n,o){let r=[...new Set(t.pools.map(({stream:i})=>i))];
r.sort((i,l)=>(i??1/0)-(l??1/0));let s=[ze[o],...r.map((i,l)=>Lt[l%Lt.length])],a=t.pools.map(({stream:i})=>i===null?0:1+r.indexOf(i)),c=[...new Set(n.strips.map(
({pool:i})=>a[i]))].sort((i,l)=>i-l);return{css:s,of:i=>a[e.pool[i]],legend:c.map(i=>({css:s[i],label:i?`stream ${r[i-1]}`:"stream not recorded"}))}}var Ds=4;function Tu({
allocations:t,clock:e},n,o){let{alloc:r}=t,s=vu[o],a=[ze[o],...s],c=u=>e?e[Math.max(n.row,0)]-e[r[u]]:n.row-r[u],i=1;for(let u of n.allocations)r[u]>=0&&(i=Math.
max(i,c(u)));let l=u=>{if(r[u]<0)return 0;let d=Math.floor(Math.log(i/Math.max(c(u),i*1e-9))/Math.log(Ds));return s.length-Math.min(Math.max(d,0),s.length-1)},f=s.
map((u,d)=>{let p=i/Ds**(s.length-1-d),g=e?M(p):`${Math.round(p).toLocaleString("en-US")} actions`;return{css:u,label:`up to ${g}`}});return n.allocations.some(
u=>r[u]<0)&&f.push({css:a[0],label:"older than the recording"}),{css:a,of:l,legend:f}}function Eu(t,e,n){let{css:o,of:r,labels:s}=Vs(t,e.device,n),a=new Set(e.allocations.
map(r)),c=s.map((i,l)=>({css:o[l],label:i})).filter((i,l)=>l>0&&a.has(l));return a.has(0)&&c.push({css:o[0],label:s[0]}),{css:o,of:r,legend:c}}var Us=new WeakMap;
function Ou(t,e){let n=Us.get(t)??new Map;Us.set(t,n);let o=n.get(e);if(o)return o;let r=t.numRows?Pe(Ne(t,e).allocated):-1,s=new Map;for(let c of new Set([r,t.
numRows-1]))for(let{key:i,label:l,bytes:f}of Zt(t,_t(t,e,c).allocations,"stack")){let u=Number(i);u>=0&&f>(s.get(u)?.bytes??0)&&s.set(u,{key:u,label:l,bytes:f})}
let a=[...s.values()].sort((c,i)=>i.bytes-c.bytes).slice(0,Lt.length);return n.set(e,a),a}function Vs(t,e,n){let o=Ou(t,e),r=new Map(o.map(({key:s},a)=>[s,a+1]));
return{css:[ze[n],...Lt.slice(0,o.length)],of:s=>r.get(t.allocations.stack[s])??0,labels:["all others",...o.map(({label:s})=>s)]}}function qs(t,e,n,o){if(n==="s\
tack")return Vs(t,e,o);let r=_t(t,e,t.numRows-1);if(n==="stream"){let{css:c,of:i}=js(t,r,o),l=[...new Set(t.header.pools.map(({stream:f})=>f))];return l.sort((f,u)=>(f??
1/0)-(u??1/0)),{css:c,of:i,labels:["stream not recorded",...l.map(f=>`stream ${f}`)]}}let{css:s,of:a}=Xs(t,r,o);return{css:s,of:a,labels:["not known",...t.header.
categories]}}var at=1024;function Ys(t,e,n,o){let{css:r,of:s,labels:a}=qs(t,e,n,o),{numRows:c,allocations:i}=t,{n:l,alloc:f,released:u,bytes:d}=i,p=new Int32Array(c+1),g=new Float64Array(
r.length);for(let k=0;k<l;k++)i.device[k]===e&&(f[k]>=0?p[f[k]+1]++:g[s(k)]+=d[k],u[k]<c&&p[u[k]+1]++);for(let k=0;k<c;k++)p[k+1]+=p[k];let m=p.slice(),w=new Uint8Array(
p[c]),y=new Float64Array(p[c]),x=(k,H,lt)=>{w[m[k]]=H,y[m[k]++]=lt};for(let k=0;k<l;k++){if(i.device[k]!==e)continue;let H=s(k);f[k]>=0&&x(f[k],H,d[k]),u[k]<c&&
x(u[k],H,-d[k])}let{sums:b,totals:S}=$u(c,g,{first:p,classes:w,changes:y}),I=[...S.keys()].filter(k=>S[k]>0).sort((k,H)=>S[H]-S[k]);return{css:r,labels:a,order:I,
first:p,classes:w,changes:y,sums:b}}function $u(t,e,{first:n,classes:o,changes:r}){let s=e.length,a=new Float64Array((Math.floor(t/at)+1)*s),c=new Float64Array(
s);for(let i=0;i<=t;i++){if(i%at===0&&a.set(e,i/at*s),i%at===0||t<=at)for(let l=0;l<s;l++)c[l]+=e[l];if(i===t)break;for(let l=n[i];l<n[i+1];l++)e[o[l]]+=r[l]}for(let i=0;i<
s;i++)c[i]+=e[i];return{sums:a,totals:c}}function It({css:t,first:e,classes:n,changes:o,sums:r}){let s=t.length,a=new Float64Array(s),c=-1;return i=>{let l=i+1;
if(c<0||l<c||l-c>at){let f=Math.floor(l/at);a.set(r.subarray(f*s,(f+1)*s)),c=f*at}for(let f=e[c];f<e[l];f++)a[n[f]]+=o[f];return c=l,a}}function Zs(t,e,n){let o=It(
t)(e),r=0;for(let s of t.order)if(r+=o[s],n<r)return s;return-1}function Nt({clock:t},e){return t===null?e+1:e<0?0:t[e]}function ct({clock:t,data:e},n){return t!==null?De(t,n):Math.min(Math.max(Math.floor(n)-1,-1),e.numRows-
1)}function De(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function Pt({clock:t,data:e}){let n=t===null?e.numRows:t[e.numRows-
1]??0;return[0,Math.max(n*1.005,1)]}function gt(t,e){let[n,o]=t.view;return(Nt(t,e)-n)/(o-n)*t.width}var Ht=170,Cu=20,K=18,D=Ht-Cu,Js={light:{allocated:"#0b62c4",active:"#b35c00",reserved:"#6b7683",grid:"#e3e8ed",paper:"#ffffff",mark:"#b3261e",cursor:"#1b1f24",
range:"rgba(11,98,196,.14)"},dark:{allocated:"#6cb6ff",active:"#f0a050",reserved:"#9aa5b1",grid:"#2a3138",paper:"#111418",mark:"#ff8a80",cursor:"#e6e9ed",range:"\
rgba(108,182,255,.2)"}},Ue=["reserved","active","allocated"];function _u(t,e){let n=Math.ceil(t.width),[o,r]=t.view,s={low:new Float64Array(n),high:new Float64Array(
n)},a=ct(t,o);for(let c=0;c<n;c++){let i=ct(t,o+(c+1)*(r-o)/n),[l,f]=[e[a+1],e[a+1]];for(let u=a+1;u<=i;u++){let d=e[u+1];d<l&&(l=d),d>f&&(f=d)}s.low[c]=l,s.high[c]=
f,a=i}return s}function Qs(t){let{canvas:e,shown:n,width:o,ratio:r}=t;if(n===null)return;let s=N(e),a=getComputedStyle(e),c=Ue.map(u=>_u(t,n.curves[u])),i=1;for(let{
high:u}of c)for(let d of u)d>i&&(i=d);t.most=i;let l=u=>D-Math.max(u,0)/(i*1.04)*(D-K),f={context:s,colors:Js[t.theme],ink:a.color,y:l};s.setTransform(r,0,0,r,0,
0),s.clearRect(0,0,o,Ht),s.font=`11px ${a.fontFamily}`,Nu(t,f,i),Hu(t,f),Lu(t,f,n.curves.allocated),Ue.forEach((u,d)=>{Ru(f,c[d],f.colors[u],u==="allocated")}),
Pu(f,i);for(let u of n.marks)Fu(t,f,u);Bu(t,f,n.peak)}function ta({most:t},e){return(D-e)/(D-K)*t*1.04}function Lu(t,{context:e,y:n},o){let{bands:r,view:s}=t;if(r===
null)return;let a=Math.ceil(t.width),{order:c,css:i}=r,l=It(r),f=c.map(()=>new Float64Array(a)),[u,d]=s,p=ct(t,u);for(let g=0;g<a;g++){let m=ct(t,u+(g+1)*(d-u)/
a),w=p;for(let b=p+1;b<=m;b++)o[b+1]>o[w+1]&&(w=b);let y=l(w),x=0;for(let b=0;b<c.length;b++)x+=y[c[b]],f[b][g]=x;p=m}e.globalAlpha=.75;for(let g=c.length-1;g>=
0;g--){e.fillStyle=i[c[g]],e.beginPath(),e.moveTo(0,n(g?f[g-1][0]:0));for(let m=0;m<a;m++)e.lineTo(m+.5,n(f[g][m]));e.lineTo(a,n(f[g][a-1])),e.lineTo(a,n(g?f[g-
1][a-1]:0));for(let m=a-1;m>=0;m--)e.lineTo(m+.5,n(g?f[g-1][m]:0));e.fill()}e.globalAlpha=1}function Ru({context:t,y:e},{low:n,high:o},r,s){let a=o.length;Gn(t,
r),t.beginPath(),t.moveTo(0,e(n[0]));for(let c=0;c<a;c++)t.lineTo(c+.5,e(o[c])),o[c]!==n[c]&&t.lineTo(c+.5,e(n[c]));t.lineWidth=s?1.5:1.25,t.stroke(),s&&(t.lineTo(
a,e(0)),t.lineTo(0,e(0)),t.globalAlpha=.14,t.fill(),t.globalAlpha=1)}function Gn(t,e){t.strokeStyle=e,t.fillStyle=e}function Iu(t){let e=10**Math.floor(Math.log10(
Math.max(t,1e-9)));return[1,2,5,10].map(n=>n*e).find(n=>n>=t*.999)??10*e}function Nu({width:t},{context:e,colors:n,y:o},r){e.lineWidth=1,e.strokeStyle=n.grid,e.
globalAlpha=1;for(let s of ea(r)){let a=Math.round(o(s))+.5;e.beginPath(),e.moveTo(0,a),e.lineTo(t,a),e.stroke()}}function ea(t){let e=2**Math.floor(Math.log2(t/
2.5));return Array.from({length:Math.floor(t*1.02/e)},(n,o)=>(o+1)*e)}function Pu({context:t,colors:e,ink:n,y:o},r){t.textBaseline="bottom";for(let s of ea(r)){
let a=Math.round(o(s))-.5,c=v(s);t.fillStyle=e.paper,t.fillRect(0,a-12,t.measureText(c).width+6,12),t.fillStyle=n,t.fillText(c,3,a)}}function Hu({width:t,view:e,
clock:n},{context:o,ink:r}){o.fillStyle=r;let s=Math.max(Iu((e[1]-e[0])/Math.max(t/130,2)),1);o.textBaseline="top";for(let a=Math.ceil(e[0]/s)*s;a<=e[1];a+=s){let c=(a-
e[0])/(e[1]-e[0])*t;o.beginPath(),o.moveTo(Math.round(c)+.5,D),o.lineTo(Math.round(c)+.5,D+4),o.stroke();let i=a?M(a):"0",l=n===null?Math.round(a).toLocaleString(
"en-US"):i,f=o.measureText(l).width/2;o.fillText(l,Math.min(Math.max(c-f,0),t-2*f),D+6)}}function na(t,e){let n=Nt(t,e);return n>=t.view[0]&&n<=t.view[1]}function Fu(t,{
context:e,colors:n,ink:o},{row:r,kind:s}){if(!na(t,r))return;let a=gt(t,r),c=s==="oom";Gn(e,c?n.mark:o),e.setLineDash(c?[]:[3,3]),e.beginPath(),e.moveTo(a,K-2),
e.lineTo(a,D),e.stroke(),e.setLineDash([]),e.beginPath(),e.moveTo(a-5,K-10),e.lineTo(a+5,K-10),e.lineTo(a,K-2),e.fill()}function Bu(t,{context:e,colors:n,y:o},{
row:r,bytes:s}){if(!na(t,r))return;let[a,c]=[Math.max(gt(t,r),3),o(s)];e.fillStyle=n.allocated,e.beginPath(),e.arc(a,c,4,0,7),e.fill();let i=`peak ${v(s)}`;e.font=
`600 ${e.font}`;let l=e.measureText(i).width+8;e.textBaseline="bottom",e.fillText(i,a+l>t.width?a-l:a+7,K-3)}function Kn(t){let e=N(t.over),n=Js[t.theme];e.setTransform(
t.ratio,0,0,t.ratio,0,0),e.clearRect(0,0,t.width,Ht);let o=gt(t,t.row);if(t.since!==null){let r=gt(t,t.since);e.fillStyle=n.range,e.fillRect(Math.min(r,o),K-4,Math.
abs(o-r),D-K+4)}Gn(e,n.cursor),e.lineWidth=1.5,e.beginPath(),e.moveTo(o,K-6),e.lineTo(o,D),e.stroke(),e.beginPath(),e.arc(o,D,3.5,0,7),e.fill()}function sa(t,e,n){let o=zu(t,e,n),{canvas:r,over:s,tip:a,legend:c}=o;return t.replaceChildren(h("div",{class:"mm-curve-stage"},r,s),c,a),Uu(o),{show(i,l,f){o.shown=
{curves:i,peak:l,marks:f},oa(o)},setBands(i){o.bands=i,c.replaceChildren(...i.order.map(l=>Du(i,l))),o.shown&&Ge(o)},bandsAt(i){let{bands:l}=o;if(l===null)return{};
let f=It(l)(i);return Object.fromEntries(l.order.map(u=>[l.labels[u],f[u]]))},setMoment(i,l){Object.assign(o,{row:i,since:l}),r.setAttribute("aria-valuenow",String(
i)),r.setAttribute("aria-valuetext",tt(e,i)),o.shown&&Kn(o)},setAxis(i){o.clock=i?e.clock:null,We(o,Pt(o))},zoomTo:i=>We(o,i??Pt(o)),getView:()=>o.view,xOf:i=>gt(
o,i),setTheme(i){o.theme=i,o.shown&&Ge(o)},resize(){o.shown&&t.clientWidth!==o.width&&oa(o)},stats:()=>({script:o.script}),destroy(){cancelAnimationFrame(o.pending),
t.replaceChildren()}}}function zu(t,e,n){let{clock:o,numRows:r}=e,s=h("canvas",{class:"mm-curve-canvas",tabindex:0,role:"slider","aria-label":"Moment of the his\
tory","aria-valuemin":-1,"aria-valuemax":r-1,"aria-valuenow":r-1});return{data:e,options:n,host:t,canvas:s,over:h("canvas",{class:"mm-over","aria-hidden":"true"}),
tip:h("div",{class:"mm-tip",hidden:!0}),legend:h("p",{class:"mm-legend mm-curve-legend"}),theme:n.theme,clock:o,view:Pt({clock:o,data:e}),shown:null,bands:null,
row:r-1,since:null,pointer:null,width:0,ratio:1,most:1,pending:0,script:[]}}function tt(t,e){if(e<0)return"before the first action";let n=`action ${(e+1).toLocaleString(
"en-US")} of ${t.numRows.toLocaleString("en-US")}`;return t.clock?`${M(t.clock[e])}, ${n}`:n}function Du({css:t,labels:e},n){let o=h("i",{"aria-hidden":"true"});
return o.style.background=t[n],h("span",{class:"mm-key",title:e[n]},o,e[n])}function oa(t){t.width=Math.max(t.host.clientWidth||t.width,160),t.ratio=Math.min(devicePixelRatio||
1,2);for(let e of[t.canvas,t.over])e.width=Math.floor(t.width*t.ratio),e.height=Math.floor(Ht*t.ratio),e.style.width=`${t.width}px`,e.style.height=`${Ht}px`;Ge(
t)}function We(t,[e,n]){let[,o]=Pt(t),r=Math.min(Math.max(n-e,t.clock===null?4:100),o),s=Math.min(Math.max(e,0),o-r);t.view=[s,s+r],Ge(t)}function Ge(t){t.pending||
(t.pending=requestAnimationFrame(()=>{if(t.pending=0,!t.shown)return;let e=performance.now();Qs(t),Kn(t),t.script.push(performance.now()-e)}))}function Ke({data:t,
options:e},n,o){let r=Math.min(Math.max(n,-1),t.numRows-1);e.onMoment(r,o===r?null:o)}function jn({canvas:t},e){return e.clientX-t.getBoundingClientRect().left}
function ra(t,e){let[n,o]=t.view;return ct(t,n+jn(t,e)/t.width*(o-n))}function Uu(t){let{canvas:e}=t,n=()=>{t.pointer=null};e.addEventListener("pointerdown",o=>{
o.button!==0||!t.shown||(t.pointer={x:o.clientX,row:ra(t,o)},e.setPointerCapture(o.pointerId),Ke(t,t.pointer.row,null))}),e.addEventListener("pointermove",o=>{if(!t.
shown)return;let r=ra(t,o);Gu(t,t.shown.curves,o,r);let{pointer:s}=t;!s||Math.abs(o.clientX-s.x)<3||Ke(t,Math.max(r,s.row),Math.min(r,s.row))}),e.addEventListener(
"pointerup",n),e.addEventListener("pointercancel",n),e.addEventListener("pointerleave",()=>{t.tip.hidden=!0}),e.addEventListener("wheel",o=>Wu(t,o),{passive:!1}),
e.addEventListener("keydown",o=>{o.altKey||o.ctrlKey||o.metaKey||!ju(t,o)||(o.preventDefault(),o.stopPropagation())})}function Wu(t,e){(e.ctrlKey||e.metaKey)&&(e.
preventDefault(),Xn(t,Math.exp(e.deltaY/200),jn(t,e)/t.width))}function Xn(t,e,n){let[o,r]=t.view,s=o+(r-o)*n;We(t,[s-(s-o)*e,s+(r-s)*e])}function Gu(t,e,n,o){let{
tip:r}=t,s=Ue.map(i=>`${i} ${v(e[i][o+1])}`),a=Ku(t,n,o),c=[...a?[a]:[],tt(t.data,o),...s];r.replaceChildren(...c.map(i=>h("div",{},i))),r.hidden=!1,r.style.left=
`${Math.max(Math.min(jn(t,n)+14,t.width-r.offsetWidth-4),0)}px`,r.style.top="24px"}function Ku(t,e,n){let{bands:o,canvas:r}=t;if(o===null)return"";let s=Zs(o,n,
ta(t,e.clientY-r.getBoundingClientRect().top));return s<0?"":`${o.labels[s]}: ${v(It(o)(n)[s])}`}function Xu(t,e){let{data:n,row:o,view:r,width:s,shown:a}=t,c=i=>{
let l=ct(t,Nt(t,o)+i*(r[1]-r[0])/s);return l===o?o+Math.sign(i):l};return e==="ArrowRight"?c(1):e==="ArrowLeft"?c(-1):e==="PageDown"?c(s/10):e==="PageUp"?c(-s/10):
e==="Home"?-1:e==="End"?n.numRows-1:e.toLowerCase()==="p"&&a?a.peak.row:null}function ju(t,e){let{row:n,since:o,view:r}=t,s=Xu(t,e.key);if(s!==null)Ke(t,s,e.shiftKey?
o??Math.min(n,s):null);else if(e.key==="+"||e.key==="=")Xn(t,1/1.6,(Nt(t,n)-r[0])/(r[1]-r[0]));else if(e.key==="-")Xn(t,1.6,.5);else if(e.key==="0")We(t,Pt(t));else if(e.
key==="Escape"&&o!==null)Ke(t,n,null);else return!1;return!0}var aa=25;function ca(t,e,n,o){let r=Zt(e,n,o.by),s=ia(r),c=[Fe(e).find(([u])=>u===o.by)?.[1]??o.by,"held","share","blocks"].map(u=>h("th",{scope:"col"},u)),i=r.
slice(0,aa).map(u=>qu(e,u,s,o)),l=h("table",{class:"mm-table"},h("thead",{},h("tr",{},...c)),h("tbody",{},...i)),f=Vu(r);t.replaceChildren(l,...f?[h("p",{class:"\
cl-hint"},f)]:[])}function ia(t){return t.reduce((e,{bytes:n})=>e+n,0)}function Vu(t){if(!t.length)return"Nothing was in use.";let e=t.slice(aa);return e.length?
`and ${C(e.length)} more with ${v(ia(e))}`:""}function qu(t,{key:e,label:n,bytes:o,num:r},s,{by:a,picked:c,onPick:i}){let l=c===e,f=s?100*o/s:0,u=h("span",{class:"\
mm-fill"});u.style.width=`${f}%`;let d=a==="stack"?Number(e):-1,p=h("tr",{tabindex:0,"data-picked":l,"aria-pressed":String(l),role:"button",title:d>=0?Vn(t,d).join(
`
`):null},h("td",{class:"mm-name"},u,h("span",{},n)),h("td",{},v(o)),h("td",{},P(f)),h("td",{},C(r))),g=()=>i(l?null:e);return p.addEventListener("click",g),p.addEventListener(
"keydown",m=>{m.key!=="Enter"&&m.key!==" "||(m.preventDefault(),g())}),p}function Vn({stacks:t},e){return[...t.idsOf(e)].map(n=>{let{file:o,line:r,name:s}=t.frameAt(
n);return`${o}${r>=0?`:${r}`:""} ${s||"?"}`.trim()})}function la(t,e,{strip:n,allocation:o,bytes:r}){let{allocations:s,header:a}=t,c=e.strips[n],i=$t(a.pools[c.pool]);if(o<0)return[`free, ${v(r)}`,c.used?"a gap be\
tween blocks":"an empty segment",i];let l=Ct(t,o).slice(0,3).join(", "),f=s.released[o]<=e.row;return[[l,v(s.bytes[o]),fa(t,o)].filter(Boolean).join(" \xB7 "),f?
"freed, waits for a stream":"",Un(t,s.stack[o]),i].filter(Boolean)}function fa({allocations:t,header:e},n){let o=t.category[n];return o?e.categories[o-1]:null}function ua(t,e,n,o){
if(t.hidden=!o,!o)return;let r=o.allocation<0,a=(r?Yu(e,n,o):Zu(e,n,o)).filter(([,l])=>l!=null&&l!=="").flatMap(([l,f])=>[h("dt",{},l),h("dd",{},String(f))]),c=r?
-1:e.allocations.stack[o.allocation],i=c>=0?Vn(e,c):[];t.replaceChildren(h("h4",{"aria-level":3},r?"Free memory":"Block"),h("dl",{class:"cl-facts"},...a),...i.length?
[h("h4",{"aria-level":3},"Allocated by"),h("pre",{class:"mm-stack"},i.join(`
`))]:[])}function Yn({header:t},e){return`0x${(BigInt(t.base)+BigInt(Math.round(e))).toString(16)}`}function qn(t){return`${v(t)} (${C(t)} bytes)`}function da(t,e,n){
let o=e.strips[n.strip],r=`${v(o.bytes)} at ${Yn(t,o.addr)}`;return[["pool",$t(t.header.pools[o.pool])],["segment",`${r}${o.grows?", expandable":""}`],["segment\
 in use",P(100*o.used/o.bytes)]]}function Yu(t,e,n){return[["size",qn(n.bytes)],["address",Yn(t,n.from)],...da(t,e,n)]}function Zu(t,e,n){let{allocation:o}=n,{bytes:r,
requested:s,released:a,addr:c}=t.allocations,{cell:i,num_tensors:l,graph:f,user_metadata:u}=Be(t,o),d=s[o];return[["held by",Ct(t,o).join(", ")],["size",qn(r[o])],
["asked for",Number.isNaN(d)?null:qn(d)],["state",a[o]<=e.row?"freed, waits for a stream":"in use"],["category",fa(t,o)??"not known"],...Ju(t,e,o),["cell",i],["\
live tensors",l],["graphs",f],["metadata",u],["address",Yn(t,c[o])],...da(t,e,n)]}function Ju(t,e,n){let{allocations:o,clock:r,numRows:s}=t,[a,c]=[o.alloc[n],o.
done[n]];return[["allocated",a<0?"before the history":tt(t,a)],["age",a>=0&&r?M(r[Math.max(e.row,0)]-r[a]):null],["freed",c<s?tt(t,c):null]]}function ha(t){let e={parent:[-1],frame:[-1],depth:[0],leaf:new Int32Array(t.n)},n=new Map;for(let o=0;o<t.n;o++){let r=t.idsOf(o),s=0;for(let a=r.length-1;a>=0;a--){
let c=s*t.numFrames+r[a],i=n.get(c);i===void 0&&(i=e.parent.length,n.set(c,i),e.parent.push(s),e.frame.push(r[a]),e.depth.push(e.depth[s]+1)),s=i}e.leaf[o]=s}return e}
function pa(t,e,n){let o=t.parent.length,[r,s]=[new Float64Array(o),new Float64Array(o)];for(let a of n){let c=e.stack[a]<0?0:t.leaf[e.stack[a]];r[c]+=e.bytes[a],
s[c]+=1}for(let a=o-1;a>0;a--)r[t.parent[a]]+=r[a],s[t.parent[a]]+=s[a];return{bytes:r,num:s}}function ma(t){let e=t.parent.map(()=>[]);for(let n=1;n<t.parent.length;n++)
e[t.parent[n]].push(n);return e}function wa(t,e,n){let o=e.stacks.n?ha(e.stacks):null,r=o?o.parent.length:-1,s=o?{...o,parent:[...o.parent,0],depth:[...o.depth,1]}:null,a=s?ma(s):[],c=l=>l&&o&&
l!==r?e.stacks.frameAt(o.frame[l]):null,i=Re(t,{theme:n.theme,label:"Bytes by call stack",placeholder:"Search functions and files",searchLabel:"Search call stac\
ks",textOf(l){let f=c(l);return f?He(f):l?"no call stack":"all"},amountOf:(l,f)=>`${v(l)} (%) in ${_(f,"block")}`,format:v,notesOf:l=>[c(l)?.file??""],onZoom(l){
!l||!o?n.onZoom(null):n.onZoom(l===r?f=>f<0:Qu(o,l))}});return{...i,get root(){return i.root},get graph(){return i.graph},show(l){if(!o||!s)return;let{bytes:f,num:u}=pa(
o,e.allocations,l),{parent:d,depth:p}=s;i.show({parent:d,depth:p,children:a,weight:ga(f,a[0]),num:ga(u,a[0])})}}}function ga(t,e){let n=e.slice(0,-1).reduce((r,s)=>r+
t[s],0),o=new Float64Array(t.length+1);return o.set(t),o[t.length]=t[0]-n,o}function Qu(t,e){let n=Uint8Array.from(t.leaf,o=>td(t,o,e)?1:0);return o=>o>=0&&n[o]===
1}function td({parent:t},e,n){for(let o=e;o>=0;o=t[o])if(o===n)return!0;return!1}var ed=[{key:"requested",label:"asked for",meaning:"what programs asked for, of blocks in use",bytesOf:t=>t.active-t.internal},{key:"internal",label:"rounding",
meaning:"blocks in use that are larger than what was asked for",bytesOf:t=>t.internal},{key:"external",label:"gaps",meaning:"free memory in segments that hold s\
omething: it fits only what is small enough",bytesOf:t=>t.external},{key:"empty",label:"cached",meaning:"segments in which nothing is in use; torch.cuda.empty_c\
ache() returns them",bytesOf:t=>t.empty}];function ba(t,{sums:e}){let n=ed.map(s=>({...s,bytes:s.bytesOf(e)})),o=n.filter(({bytes:s})=>s>0).map(nd),r=n.map(({key:s,
label:a,meaning:c,bytes:i})=>h("span",{class:"mm-key",title:c},h("i",{class:`mm-is-${s}`}),`${a} ${v(i)} (${P(ya(e,i))})`));t.replaceChildren(h("p",{},od(e)),h(
"div",{class:"mm-bar",role:"img","aria-label":"Reserved memory by use"},...o),h("p",{class:"mm-legend"},...r))}function nd({key:t,label:e,bytes:n}){let o=h("spa\
n",{class:`mm-part mm-is-${t}`,title:`${e}: ${v(n)}`});return o.style.flexGrow=String(n),o}function ya({reserved:t},e){return t?100*e/t:0}function od(t){if(!t.reserved)
return"No memory was reserved.";let e=P(ya(t,t.internal+t.external)),n=v(t.largest);return`Fragmentation ${e} of ${v(t.reserved)} reserved; the largest block th\
at fits without new memory is ${n}.`}var xa=1.6;function ka(t,e){let{data:n}=t,o=h("div",{class:"mm-curve"}),r=h("div",{class:"mm-map"}),s=h("aside",{class:"mm-details","aria-label":"Chosen block",
hidden:!0}),a=h("p",{class:"mm-moment","aria-live":"polite"}),c=h("p",{class:"mm-legend"}),i=h("div",{class:"mm-fragmentation"}),l=h("div",{class:"mm-holders"}),
f=h("div",{class:"mm-flame"}),u=rd(t,e),d=W("Colour",sd(),t.color,e.onColor),p=W("By",Fe(n),t.by,e.onGrouping);return{all:[...n.header.devices.length>1?[u.group]:
[],...n.numRows?[ad(n.clock!==null,e),o,cd()]:[],a,...ld(n.header),i,h("div",{class:"mm-tools"},d.group,id(e)),c,h("div",{class:"mm-columns"},r,s),h("div",{class:"\
mm-tools"},h("h4",{"aria-level":3},"Who holds it"),p.group),l,...n.stacks.n?[h("h4",{"aria-level":3},"Bytes by call stack"),f]:[]],curve:o,map:r,details:s,moment:a,
legend:c,bar:i,holders:l,flame:f,devices:u,colors:d}}function rd({data:t,device:e},{onDevice:n}){let o=t.header.devices.map(({label:r},s)=>[String(s),r]);return W(
"Device",o,String(e),r=>n(Number(r)))}function sd(){return Object.entries(Gs).map(([e,n])=>[e,n.toLowerCase()])}function ad(t,{onAxis:e,onPeak:n,onEnd:o}){let r=[
["time","time"],["action","actions"]],s=h("div",{class:"mm-choice",role:"group","aria-label":"Moment"},rt("At the peak","Show the moment of the peak",n),rt("At \
the end","Show the last moment",o)),a=t?W("Axis",r,"time",c=>e(c==="time")).group:null;return h("div",{class:"mm-tools"},ys(),a,s)}function cd(){return h("p",{class:"\
cl-hint"},"Click or drag along the curve to see what was there then.")}function id({onZoom:t,onFit:e}){return h("div",{class:"mm-choice",role:"group","aria-labe\
l":"Zoom of the map"},rt("\u2212","Zoom out",()=>t(1/xa)),rt("+","Zoom in",()=>t(xa)),rt("fit","Show all",e))}function ld({hidden:t}){if(!t.num)return[];let e=`${_(
t.num,"small allocation")} (${v(t.bytes)} together)`;return[h("p",{class:"cl-hint"},`${e} are in the curve and not in the map.`)]}function Ma(t,e,n){let o=e.map(
({css:a,label:c})=>{let i=h("i",{});return i.style.background=a,h("span",{class:"mm-key",title:c},i,c)}),r=h("span",{class:"mm-key"},h("i",{class:"mm-waits"}),"\
waits for a stream"),s=h("span",{class:"mm-key"},h("i",{class:"mm-free"}),"free");t.replaceChildren(...o,...n?[r]:[],s)}var it=16,Zn=14,Xe=22,fd=[""," \xB7 small blocks"," \xB7 large blocks"];function Jn(t,e){let n=new Map;return e.strips.forEach((o,r)=>{let s=`${o.pool}/${o.kind}`,
a=n.get(s)??{strips:[],bytes:0,used:0,pool:o.pool,kind:o.kind,label:$t(t.header.pools[o.pool])+fd[o.kind]};a.strips.push(r),a.bytes+=o.bytes,a.used+=o.used,n.set(
s,a)}),[...n.values()].sort((o,r)=>o.pool-r.pool||r.kind-o.kind)}function Qn(t,e,n,o){let r=n*o,s=[],a=[],c={strip:[],from:[],bytes:[],x:[]},i=0,l=()=>{a.push({
y:i,first:c.strip.length,end:c.strip.length}),i+=it},f=(u,d,p,g)=>{c.strip.push(u),c.from.push(d),c.bytes.push(p),c.x.push(g/o),a[a.length-1].end=c.strip.length};
for(let u of e){s.push({y:i,group:u}),i+=Xe,l();let d=0;for(let p of u.strips){let{bytes:g}=t.strips[p];d>0&&d+g>r&&(l(),d=0);for(let w=0;w<g;w+=r)w>0&&l(),f(p,
w,Math.min(r,g-w),d);let m=g>r?r:g;d+=m+ud(g/o)*o}i+=4}return{heads:s,lines:a,part:c,height:i,width:n,bytesPerPx:o}}function ud(t){return t>=12?3:t>=4?1:0}function va(t,e,n,o){
let r=Math.max(...e.map(c=>c.bytes),1),[s,a]=[r/n/4096,r*1.5/n];for(let c=0;c<24;c++){let i=Math.sqrt(s*a);Qn(t,e,n,i).height>o?s=i:a=i}return a}function Jt(t,e){
let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r].y<=e?n=r+1:o=r}return n-1}function to(t,e,n,o,r){let[s,a]=[n,o];for(;s<a;){let c=s+a>>1;t.addr[e[c]]+t.bytes[e[c]]<=
r?s=c+1:a=c}return s}function Qt(t,e,n,o,r){let s=Jt(n.lines,r);if(s<0||r>n.lines[s].y+it)return null;let{part:a}=n;for(let c=n.lines[s].first;c<n.lines[s].end;c++){
let i=a.bytes[c]/n.bytesPerPx;if(o<a.x[c]||o>=a.x[c]+Math.max(i,1))continue;let l=e.strips[a.strip[c]];return te(t,e,a.strip[c],l.addr+a.from[c]+(o-a.x[c])*n.bytesPerPx)}
return null}function te(t,e,n,o){let{allocations:r}=t,s=e.strips[n],a=to(r,e.allocations,s.first,s.end,o),c=a<s.end?e.allocations[a]:-1;if(c>=0&&r.addr[c]<=o)return{
strip:n,allocation:c,from:r.addr[c],bytes:r.bytes[c]};let i=a>s.first?e.allocations[a-1]:-1,l=i<0?s.addr:r.addr[i]+r.bytes[i];return{strip:n,allocation:-1,from:l,
bytes:(c<0?s.addr+s.bytes:r.addr[c])-l}}function wt(t,e,{strip:n,from:o,bytes:r}){let{part:s,lines:a,bytesPerPx:c}=e,i=o-t.strips[n].addr,l=[],f=s.strip.indexOf(
n),u=0;for(;f>=0&&f<s.strip.length&&s.strip[f]===n;f++){let[d,p]=[Math.max(i,s.from[f]),Math.min(i+r,s.from[f]+s.bytes[f])];if(!(d>=p)){for(;a[u].end<=f;)u++;l.
push({x:s.x[f]+(d-s.from[f])/c,y:a[u].y,width:(p-d)/c,height:Zn})}}return l}var dd=6,[eo,Aa,hd]=[0,1,2],no=0,pd=64,md=10,gd=.75,wd=400;function Sa(t,e){let{layout:n,top:o,height:r,ratio:s}=e,a=bd(e),c=Math.floor(r*s),i=new ImageData(Math.
max(a.width,1),Math.max(c,1)),l=new Uint32Array(i.data.buffer),f=[],u=Math.max(Jt(n.lines,o),0);for(let d=u;d<n.lines.length&&n.lines[d].y<o+r;d++){let p=n.lines[d];
yd(e,a,p,f),Md(l,a,Math.round((p.y-o)*s),Math.round(Zn*s),c)}t.putImageData(i,0,0),t.save(),t.scale(s,s),t.textBaseline="middle",vd(t,e),Ad(t,e,f),t.restore()}function bd({
layout:t,theme:e,ratio:n}){let o=Math.floor(t.width*n),{gap:r,hatch:s,dim:a}=Ws[e];return{width:o,line:new Uint32Array(o),kind:new Uint8Array(o),weight:new Float32Array(
o),gap:Rt(r),hatch:Rt(s),dim:Rt(a)}}function yd(t,e,n,o){e.line.fill(no),e.kind.fill(eo),e.weight.fill(0);for(let r=n.first;r<n.end;r++)xd(t,e,r,n.y,o)}function xd(t,e,n,o,r){
let{data:s,moment:a,layout:c,ratio:i}=t,{addr:l,bytes:f}=s.allocations,{part:u}=c,d=a.strips[u.strip[n]],p=i/c.bytesPerPx,g=u.x[n]*i,[m,w]=[d.addr+u.from[n],u.bytes[n]],
y=Math.min(Math.max(Math.round(g+w*p),Math.round(g)+1),e.width);e.line.fill(e.gap,Math.round(g),y),e.kind.fill(Aa,Math.round(g),y);let x=to(s.allocations,a.allocations,
d.first,d.end,m);for(let b=x;b<d.end;b++){let S=a.allocations[b],I=l[S]-m;if(I>=w)break;let k=g+Math.max(I,0)*p,H=g+Math.min(I+f[S],w)*p;kd(t,e,b,{low:k,high:H,
right:y,y:o},r)}}function kd({data:t,moment:e,ratio:n,codes:o,isDim:r,coloring:s},a,c,{low:i,high:l,right:f,y:u},d){let p=e.allocations[c],g=t.allocations.released[p]<=
e.row,m=r?.[c]===1,w=m?a.dim:s.pixels[o[c]],y=g?hd:eo,x=Math.round(i),b=Math.min(Math.round(l),f);if(b-x<1){let I=Math.min(Math.floor(i),a.width-1);l-i>a.weight[I]&&
(a.weight[I]=l-i,a.line[I]=w,a.kind[I]=y);return}if(a.line.fill(w,x,b),a.kind.fill(y,x,b),a.weight.fill(1,x,b),b-x<=3*n)return;a.line.fill(m?no:s.edges[o[c]],b-
Math.round(n),b);let S=(b-x)/n;S>pd&&d.length<wd&&!m&&!g&&d.push({allocation:p,code:o[c],x:x/n,width:S,y:u})}function Md(t,e,n,o,r){let{width:s,line:a,kind:c}=e;
for(let i=Math.max(n,0);i<Math.min(n+o,r);i++){let l=i*s;t.set(a,l);for(let f=0;f<s;f++){if(c[f]===eo)continue;let u=(f+i)%dd;c[f]===Aa?u===0&&(t[l+f]=e.hatch):
u<2&&(t[l+f]=no)}}}function vd(t,{layout:e,top:n,height:o,ink:r,font:s}){t.font=`600 12px ${s}`,t.fillStyle=r;for(let{y:a,group:c}of e.heads){if(a+Xe<n||a>n+o)continue;
let i=_(c.strips.length,"segment"),l=v(Math.max(c.bytes-c.used,0)),f=`${c.label}: ${v(c.bytes)} in ${i}, ${l} free`;t.fillText(ft(t,f,e.width),0,a-n+Xe/2+1)}}function Ad(t,{
data:e,coloring:n,top:o,font:r},s){t.font=`11px ${r}`;for(let{allocation:a,code:c,x:i,width:l,y:f}of Td(s)){let[u,d,p]=n.rgb[c];t.fillStyle=.299*u+.587*d+.114*p>
140?"#000000":"#ffffff";let g=Sd(t,e,a,l-8);g&&t.fillText(g,i+4,f-o+it/2-.5)}}function Sd(t,e,n,o){let r=Ed(e,n),s=ft(t,r,o,gd),a=v(e.allocations.bytes[n]);return s===
r||s.length>=a.length+md?s:t.measureText(a).width<=o?a:""}function Td(t){let e=new Map;for(let n of t){let o=e.get(n.allocation);(o===void 0||n.width>o.width)&&
e.set(n.allocation,n)}return e.values()}function Ed(t,e){let[n]=Ct(t,e),o=v(t.allocations.bytes[e]);return n?`${n} \xB7 ${o}`:o}function Ta(t,e,n){let{picture:o}=t;!o?.moment.strips.length||e.altKey||e.ctrlKey||e.metaKey||Od(t,o,e.key,n)&&(e.preventDefault(),e.stopPropagation())}function Od(t,e,n,{
choose:o,zoom:r}){let s=Ea(e);if(n==="ArrowRight"||n==="ArrowLeft")o($a(t,e,n==="ArrowRight"?1:-1),!0);else if(n==="ArrowDown"||n==="ArrowUp")o($d(t,e,n==="Arro\
wDown"?1:-1),!0);else if(n==="Home")o(oo(t,e,s[0]),!0);else if(n==="End")o(Oa(t,e,s[s.length-1]),!0);else if(n==="+"||n==="=")r(1.6);else if(n==="-")r(1/1.6);else if(n===
"0")r(1/t.zoom);else if(n==="Escape"&&t.chosen)o(null,!1);else return!1;return!0}function Ea({groups:t}){return t.flatMap(e=>e.strips)}function oo({data:t},{moment:e},n){
return te(t,e,n,e.strips[n].addr)}function Oa({data:t},{moment:e},n){let o=e.strips[n];return te(t,e,n,o.addr+o.bytes-1)}function $a(t,e,n){let o=Ea(e),{chosen:r,
data:s}=t;if(!r)return oo(t,e,o[0]);let a=e.moment.strips[r.strip],c=n>0?r.from+r.bytes:r.from-1;if(c>=a.addr&&c<a.addr+a.bytes)return te(s,e.moment,r.strip,c);
let i=o.indexOf(r.strip)+n;return i<0||i>=o.length?r:n>0?oo(t,e,o[i]):Oa(t,e,o[i])}function $d(t,e,n){let{chosen:o,data:r,width:s}=t,{moment:a,layout:c}=e;if(!o)
return $a(t,e,1);let i=wt(a,c,o).at(n>0?-1:0),l=i&&c.lines[Jt(c.lines,i.y)+n];return l?Qt(r,a,c,Math.min(i.x+1,s-2),l.y+1)??Qt(r,a,c,c.part.x[l.first],l.y+1):o}var La=420,Cd=60,_d=6e4;function Ra(t,e,n){let o=Ld(e,n);return t.replaceChildren(o.scroller,o.tip,o.spoken),Hd(o),{show:r=>Rd(o,r),setColor(r){return o.color=r,
je(o)},setDim(r){o.isDimmed=r,je(o)},choose:r=>ro(o,r,!0),zoomBy:r=>Ve(o,r,null),fit:()=>Ve(o,1/o.zoom,null),setTheme(r){return o.theme=r,je(o)},resize(){o.picture&&
o.scroller.clientWidth!==o.width&&so(o,o.picture.moment)},stats:()=>({script:o.script,zoom:o.zoom,lines:o.picture?.layout.lines.length??0}),hitAt:(r,s)=>qe(o,{x:r,
y:s}),boxesOf:r=>o.picture?wt(o.picture.moment,o.picture.layout,r):[],destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function Ld(t,e){let n=h("\
canvas",{class:"mm-canvas",tabindex:0,role:"application","aria-label":"Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."}),o=h("ca\
nvas",{class:"mm-over","aria-hidden":"true"}),r=h("div",{class:"mm-spacer"}),s=h("div",{class:"mm-stage"},n,o);return{data:t,options:e,canvas:n,over:o,stage:s,spacer:r,
scroller:h("div",{class:"mm-scroll"},s,r),tip:h("div",{class:"mm-tip",hidden:!0}),spoken:h("p",{class:"mm-said","aria-live":"polite"}),theme:e.theme,color:e.color,
isDimmed:null,zoom:1,hover:null,chosen:null,picture:null,colors:null,width:0,height:0,ratio:1,numLines:3,pending:0,script:[]}}function Rd(t,e){let{picture:n}=t;
if(t.hover=null,t.tip.hidden=!0,n&&Id(n.moment,e)){let o=Jn(t.data,e);o.forEach((r,s)=>{n.layout.heads[s].group=r}),t.picture={...n,moment:e,groups:o}}else so(t,
e);return je(t)}function Id(t,e){return t.device!==e.device||t.strips.length!==e.strips.length?!1:e.strips.every(({addr:n,bytes:o,pool:r,kind:s},a)=>{let c=t.strips[a];
return n===c.addr&&o===c.bytes&&r===c.pool&&s===c.kind})}function so(t,e,n=null){let o=Jn(t.data,e);t.width=Math.max(t.scroller.clientWidth||t.width,160);let r=va(
e,o,t.width,Nd(t,e,o)),s=Qn(e,o,t.width,r/t.zoom);t.picture={moment:e,groups:o,layout:s},t.height=Math.max(Math.min(s.height,La),Cd),t.ratio=Math.min(devicePixelRatio||
1,2),t.scroller.style.height=`${t.height}px`,t.stage.style.height=`${t.height}px`,t.spacer.style.height=`${Math.max(s.height-t.height,0)}px`;for(let a of[t.canvas,
t.over])a.width=Math.floor(t.width*t.ratio),a.height=Math.floor(t.height*t.ratio),a.style.width=`${t.width}px`,a.style.height=`${t.height}px`;if(n){let[a]=wt(e,
s,n.hit);a&&(t.scroller.scrollTop=a.y-n.y)}ao(t)}function Nd(t,e,n){return t.numLines=Math.max(t.numLines,Math.ceil(e.allocations.length/4),e.strips.length),Math.
min(La-4,n.length*26+t.numLines*it)}function je(t){if(!t.picture)return[];let{moment:e}=t.picture,{isDimmed:n}=t,o=Ks(t.data,e,t.color,t.theme);return t.colors=
{coloring:o,codes:Uint16Array.from(e.allocations,o.of),isDim:n&&Uint8Array.from(e.allocations,r=>n(r)?1:0)},ao(t),o.legend}function ao(t){t.pending||(t.pending=
requestAnimationFrame(()=>{t.pending=0;let{picture:e,colors:n}=t;e&&n?.codes.length===e.moment.allocations.length&&Pd(t,e,n)}))}function Pd(t,{moment:e,layout:n},o){
let{data:r,theme:s,height:a,ratio:c}=t,i=performance.now(),l=getComputedStyle(t.canvas),[f,u,d]=[l.color,l.fontFamily,t.scroller.scrollTop];Sa(N(t.canvas),{data:r,
moment:e,layout:n,...o,theme:s,top:d,height:a,ratio:c,ink:f,font:u}),co(t),t.script.push(performance.now()-i),t.script.length>2e3&&t.script.splice(0,1e3)}function co(t){
let{picture:e,hover:n,chosen:o}=t,r=N(t.over);r.setTransform(t.ratio,0,0,t.ratio,0,0),r.clearRect(0,0,t.width,t.height),e&&(r.strokeStyle=getComputedStyle(t.canvas).
color,n&&Ca(t,e,r,n,1.5),o&&Ca(t,e,r,o,2.5))}function Ca({scroller:t,height:e},{moment:n,layout:o},r,s,a){if(s.strip>=n.strips.length)return;let c=t.scrollTop;r.
lineWidth=a;for(let i of wt(n,o,s))i.y+it<c||i.y>c+e||r.strokeRect(i.x-.5,i.y-c-.5,Math.max(i.width,2)+1,i.height+1)}function Ve(t,e,n){if(!t.picture)return;let{
moment:o,layout:r}=t.picture,s=n?n.y:t.height/3,a=qe(t,{x:n?n.x:1,y:s}),c=Math.max(_d/Math.max(r.lines.length,1)*t.zoom,1);t.zoom=Math.min(Math.max(t.zoom*e,1),
c),t.tip.hidden=!0,so(t,o,a&&{hit:{...a,bytes:Math.max(a.bytes,1)},y:s})}function qe({data:t,picture:e,scroller:n},{x:o,y:r}){return e&&Qt(t,e.moment,e.layout,o,
r+n.scrollTop)}function Hd(t){let{canvas:e,scroller:n}=t,o=s=>{let a=e.getBoundingClientRect();return{x:s.clientX-a.left,y:s.clientY-a.top}},r=s=>{!(s.ctrlKey||
s.metaKey)||!t.picture||(s.preventDefault(),Ve(t,Math.exp(-s.deltaY/200),o(s)))};n.addEventListener("scroll",()=>ao(t)),n.addEventListener("wheel",r,{passive:!1}),
e.addEventListener("pointermove",s=>{let a=o(s);t.picture&&_a(t,qe(t,a),a)}),e.addEventListener("pointerleave",()=>_a(t,null,{x:0,y:0})),e.addEventListener("cli\
ck",s=>{t.picture&&ro(t,qe(t,o(s)),!1)}),e.addEventListener("keydown",s=>Ta(t,s,{choose:(a,c)=>ro(t,a,c),zoom:a=>Ve(t,a,null)}))}function _a(t,e,n){let{tip:o}=t,
r=e!==null&&e.strip===t.hover?.strip&&e.from===t.hover.from;if(t.hover=e,o.hidden=!e,e){r||o.replaceChildren(...t.options.describe(e).map(c=>h("div",{},c)));let s=Math.
min(n.x+14,t.width-o.offsetWidth-4),a=n.y+18+o.offsetHeight<t.height;o.style.left=`${Math.max(s,0)}px`,o.style.top=`${a?n.y+18:Math.max(n.y-o.offsetHeight-8,0)}\
px`}r||co(t)}function ro(t,e,n){let{picture:o,scroller:r,height:s,options:a}=t;if(t.chosen=e,e&&o&&n){let[c]=wt(o.moment,o.layout,e),i=r.scrollTop;c&&(c.y<i||c.
y+it>i+s)&&(r.scrollTop=c.y-s/2)}o&&co(t),t.spoken.textContent=e?a.describe(e).join(", "):"",a.onChoose(e)}var Fd=80;async function Ia(t,e,{theme:n}){let o=Bd(await zs(e),n),{data:r,parts:s,curve:a,pool:c,flame:i}=o;return t.replaceChildren(...s.all),io(o,o.device),o.
peak&&bt(o,o.peak.row,null),cancelAnimationFrame(o.pending),Na(o),{data:r,get moment(){return o.moment},get chosen(){return o.chosen},get since(){return o.since},
pool:c,curve:a,flame:i,showMoment:(l,f=null)=>bt(o,l,f),showStretch:(l,f)=>Ud(o,l,f),showDevice:l=>io(o,l),setColor:l=>Pa(o,l),setTheme(l){o.theme=l,a.setTheme(
l),fo(o),uo(o,c.setTheme(l)),i.setTheme(l)},resize(){for(let l of[a,c,i])l.resize()},destroy(){cancelAnimationFrame(o.pending),clearTimeout(o.settling);for(let l of[
a,c,i])l.destroy();t.replaceChildren()}}}function Bd(t,e){let n=Dd(t),o=zd(t),r=_t(t,o,t.numRows-1),s={data:t,device:o,row:t.numRows-1,since:null,moment:r,counted:r.
allocations,peak:null,by:n,picked:null,color:n,theme:e,chosen:null,isInNode:null,isSettled:!1,pending:0,settling:void 0},a=ka(s,{onDevice:i=>io(c,i),onAxis:i=>c.
curve.setAxis(i),onPeak:()=>c.peak&&bt(c,c.peak.row,null),onEnd:()=>bt(c,t.numRows-1,null),onZoom:i=>c.pool.zoomBy(i),onFit:()=>c.pool.fit(),onColor:i=>Pa(c,i),
onGrouping:i=>qd(c,i)}),c=Object.assign(s,{parts:a,curve:sa(a.curve,t,{theme:e,onMoment:(i,l)=>bt(c,i,l)}),pool:Ra(a.map,t,{theme:e,color:n,describe:i=>la(t,c.moment,
i),onChoose:i=>Yd(c,i)}),flame:wa(a.flame,t,{theme:e,onZoom(i){c.isInNode=i,Ye(c)}})});return c}function zd({header:t}){let{devices:e}=t;return e.reduce((n,o,r)=>o.
reserved_bytes>e[n].reserved_bytes?r:n,0)}function Dd({allocations:t,stacks:e}){return t.category.some(n=>n>0)||!e.n?"category":"stack"}function io(t,e){let{data:n}=t;
if(t.device=e,t.parts.devices.mark(String(e)),t.picked=null,n.numRows){let o=Ne(n,e),r=Pe(o.allocated);t.peak={row:r,bytes:o.allocated[r+1]};let{index:s}=n.header.
devices[e],a=n.header.marks.filter(c=>c.device===null||c.device===s);t.curve.show(o,t.peak,a),fo(t)}bt(t,t.row,t.since)}function bt(t,e,n){t.row=e,t.since=n,t.data.
numRows&&t.curve.setMoment(e,n),cancelAnimationFrame(t.pending),t.pending=requestAnimationFrame(()=>Na(t))}function Ud(t,[e,n],o){let{clock:r,header:s}=t.data;if(!r)
return;let a=Number(BigInt(o)-BigInt(s.t0)),[c,i]=[De(r,e+a),De(r,n+a)];bt(t,i,c===i?null:c)}function Na(t){let{data:e,row:n,since:o,parts:r,chosen:s}=t,{alloc:a}=e.
allocations;t.moment=_t(e,t.device,n),t.counted=t.moment.allocations.filter(c=>o===null||a[c]>o),r.moment.replaceChildren(...Kd(t)),ba(r.bar,t.moment),uo(t,t.pool.
show(t.moment)),Ye(t),clearTimeout(t.settling),t.settling=setTimeout(()=>Wd(t),t.isSettled?Fd:0),s&&t.pool.choose(Gd(t,s.allocation))}function Wd(t){t.isSettled=
!0,lo(t),t.flame.show(t.counted)}function Gd({data:t,moment:e},n){let{addr:o,bytes:r}=t.allocations,s=n<0?-1:e.allocations.indexOf(n),a=e.strips.findIndex(({first:c,
end:i})=>c<=s&&s<i);return a<0?null:{strip:a,allocation:n,from:o[n],bytes:r[n]}}function Kd({data:t,row:e,since:n,moment:o,counted:r,peak:s}){let{sums:a}=o,c=jd(
t,e,s),i=_(o.allocations.length,"block"),l=_(o.strips.length,"segment"),f=`${v(a.allocated)} allocated in ${i}, ${v(a.reserved)} reserved in ${l}`,u=a.pending?`\
, ${v(a.pending)} freed and waiting for a stream`:"",d=o.outside?`; ${_(o.outside,"block")} outside of the recorded segments`:"",p=n===null?"":Vd(t,r,n),g=e===t.
numRows-1?Xd(t,o):"";return[h("strong",{},`${c}: `),`${f}${u}${d}${g}.${p}`]}function Xd({allocations:{alloc:t,bytes:e}},n){let o=0;for(let r of n.allocations)t[r]<
0&&(o+=e[r]);return o?`; ${v(o)} was allocated before recording`:""}function jd(t,e,n){return e===n?.row?`At the peak (${tt(t,e)})`:e===t.numRows-1?"At the end":
e<0?"Before the first action":`After ${tt(t,e)}`}function Vd(t,e,n){let o=e.reduce((s,a)=>s+t.allocations.bytes[a],0),r=_(e.length,"block");return` ${v(o)} of i\
t in ${r} came since ${tt(t,n)} and stayed; the rest is pale.`}function lo(t){ca(t.parts.holders,t.data,t.counted,{by:t.by,picked:t.picked,onPick(e){t.picked=e,
lo(t),Ye(t)}})}function Ye({data:t,pool:e,since:n,picked:o,by:r,isInNode:s}){if(n===null&&o===null&&!s){e.setDim(null);return}let{alloc:a,stack:c}=t.allocations;
e.setDim(i=>n!==null&&a[i]<=n||o!==null&&Wn(t,i,r)!==o||s!==null&&!s(c[i]))}function qd(t,e){t.by=e,t.picked=null,lo(t),Ye(t)}function Pa(t,e){t.color=e,t.parts.
colors.mark(e),uo(t,t.pool.setColor(e)),fo(t)}function fo({data:t,device:e,color:n,theme:o,curve:r}){t.numRows&&r.setBands(Ys(t,e,n,o))}function uo({parts:t,moment:e},n){
Ma(t.legend,n,e.sums.pending>0)}function Yd(t,e){let{details:n}=t.parts;t.chosen=e;let o=n.hidden;ua(n,t.data,t.moment,e),o!==n.hidden&&t.pool.resize()}var Zd=1500;function Ha(t){let e=G(t),[n]=R(e,".cl-race-code",HTMLElement);n&&Qd(n);let[o]=R(e,":scope > .cudalens-race-value",HTMLElement);return o&&Jd(e,o),e}
function Jd(t,e){let n=`cl-race-tab-${Math.random().toString(36).slice(2)}`,o=[...t.children].filter(i=>i!==e&&!i.matches("h4, .cl-race-what")),r=h("div",{class:"\
cl-race-panel"},...o),s=[r,e],a=["Accesses","Values"].map((i,l)=>h("button",{type:"button",role:"tab",id:`${n}-${l}`,"data-lm-suppress-shortcuts":"true"},i)),c=i=>{
for(let[l,f]of a.entries())f.setAttribute("aria-selected",String(l===i)),f.tabIndex=l===i?0:-1,s[l].hidden=l!==i};for(let[i,l]of s.entries())l.setAttribute("rol\
e","tabpanel"),l.setAttribute("aria-labelledby",`${n}-${i}`),a[i].addEventListener("click",()=>c(i)),a[i].addEventListener("keydown",f=>{f.key!=="ArrowLeft"&&f.
key!=="ArrowRight"||(f.preventDefault(),f.stopPropagation(),c(1-i),a[1-i].focus())});t.append(h("div",{class:"cl-race-tabs",role:"tablist","aria-label":"What is\
 known of the race"},...a),r,e),c(e.querySelector(".cl-value-confirmed")?1:0)}function Qd(t){let e=t.textContent,n=h("div",{class:"cl-race-copy"}),o=h("button",
{type:"button",class:"cl-button","data-lm-suppress-shortcuts":"true"},"Copy");o.addEventListener("click",async()=>{o.textContent=await th(e,t)?"Copied":"Selecte\
d: press Ctrl+C",setTimeout(()=>{o.textContent="Copy"},Zd)}),t.replaceWith(n),n.append(t,o)}async function th(t,e){try{return await navigator.clipboard.writeText(
t),!0}catch{return getSelection()?.selectAllChildren(e),document.execCommand("copy")}}var eh=4,Fa=10;function Ba(t,e,{onChoose:n}={}){let o={model:e,onChoose:n,kind:null,at:0,shown:e.races,cards:new Map,items:[],id:`cl-race-${Math.random().toString(
36).slice(2)}`,list:h("ul",{class:"cl-race-list",role:"listbox",tabindex:"0","aria-label":"Races, worst first","data-lm-suppress-shortcuts":"true"}),card:h("div",
{class:"cl-race-host","aria-live":"polite"}),tools:h("div",{class:"cl-race-tools",role:"group","aria-label":"Kinds of races"})},r=e.races.length===1,s=r?o.card:
h("div",{class:"cl-race-split"},o.list,o.card);return r||(nh(o),ch(o)),t.replaceChildren(...o.tools.childElementCount?[o.tools]:[],s),Ua(o),{choose:a=>ah(o,a),chosen:()=>o.
shown[o.at].row,setTheme(){},destroy:()=>t.replaceChildren()}}function nh(t){let{races:e,more:n}=t.model,o=new Map;for(let{kind:r,title:s}of e)o.set(r,{title:s,
number:(o.get(r)?.number??0)+1});if(o.size>1&&e.length>=eh){let r=[...o].map(([s,{title:a,number:c}])=>({kind:s,text:`${a} ${C(c)}`}));for(let{kind:s,text:a}of[
{kind:null,text:`all ${C(e.length)}`},...r])t.tools.append(oh(t,s,a))}if(n){let r=`and ${_(n,"race")} more in trace.races`;t.tools.append(h("span",{class:"cl-hi\
nt"},r))}}function oh(t,e,n){let o=()=>{t.kind=e,za(t),Da(t)},s={type:"button",class:"cl-button","aria-pressed":String(e===t.kind),onclick:o};return h("button",
{...s,"data-kind":e??""},n)}function za({tools:t,kind:e}){for(let n of R(t,"button",HTMLButtonElement))n.setAttribute("aria-pressed",String(n.dataset.kind===(e??
"")))}function Da(t){let e=t.shown[t.at];t.shown=t.model.races.filter(n=>t.kind===null||n.kind===t.kind),t.at=Math.max(0,t.shown.indexOf(e)),Ua(t)}function Ua(t){
t.items=t.shown.map((e,n)=>rh(t,e,n)),t.list.replaceChildren(...t.items),ho(t,t.at)}function rh(t,e,n){let o=t.model.races.indexOf(e)+1;return h("li",{role:"opt\
ion",id:`${t.id}-${n}`,"aria-selected":"false",onclick:()=>Wa(t,n)},h("b",{},`${C(o)}. ${e.title}`),` of ${e.tensor}, ${e.times}`,...e.places.map(r=>h("small",{},
r)))}function ho(t,e){t.items[t.at]?.setAttribute("aria-selected","false"),t.at=e;let n=t.shown[e],o=t.items[e];o.setAttribute("aria-selected","true"),t.list.setAttribute(
"aria-activedescendant",o.id),sh(t.list,o);let r=t.cards.get(n)??Ha(n.card);t.cards.set(n,r),t.card.replaceChildren(r)}function sh(t,e){let n=e.offsetTop-t.offsetTop;
n<t.scrollTop?t.scrollTop=n:n+e.offsetHeight>t.scrollTop+t.clientHeight&&(t.scrollTop=n+e.offsetHeight-t.clientHeight)}function Wa(t,e){ho(t,e),t.onChoose?.(t.shown[e])}
function ah(t,e){t.shown.some(o=>o.row===e)||(t.kind=null,za(t),Da(t));let n=t.shown.findIndex(o=>o.row===e);n>=0&&ho(t,n)}function ch(t){t.list.addEventListener(
"keydown",e=>{if(e.ctrlKey||e.metaKey||e.altKey)return;let n=t.shown.length-1,o={ArrowDown:t.at+1,ArrowUp:t.at-1,Home:0,End:n,PageDown:t.at+Fa,PageUp:t.at-Fa};e.
key in o&&(e.preventDefault(),e.stopPropagation(),Wa(t,Math.min(Math.max(o[e.key],0),n)))})}async function Ze(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("gzip"));return new Uint8Array(await new Response(e).arrayBuffer())}async function po(t){
return JSON.parse(new TextDecoder().decode(await Ze(t)))}var Ga=Symbol.for("cudalens.libraries");function ih(){let t=globalThis;return t[Ga]??=new Map,t[Ga]}async function mo(t,e,n,o=""){
let r=ih(),s=`${t}@${e}`,a=`${s} from ${o}`,c=()=>r.get(s)??r.get(a);for(let l=c();l;l=c()){let f=await l.catch(()=>null);if(f)return f.default}let i=n(t).then(
Ze).then(lh);return r.set(a,i),i.then(()=>r.set(s,i)).catch(()=>{}).then(()=>r.delete(a)),(await i).default}var Ka=["$","moduleName"];async function lh(t){let e=URL.
createObjectURL(new Blob([t],{type:"text/javascript"})),n=Ka.map(o=>Object.getOwnPropertyDescriptor(globalThis,o));try{let o=await import(e);return"default"in o?
o:{default:Reflect.get(globalThis,"moduleName")}}finally{URL.revokeObjectURL(e),Ka.forEach((o,r)=>{let s=n[r];s?Object.defineProperty(globalThis,o,s):Reflect.deleteProperty(
globalThis,o)})}}function Xa(t,e,n){let o=Math.random().toString(36).slice(2),r=new Set,s="",a=n.map(({key:f})=>h("div",{id:`cl-${o}-${f}`,class:"cl-tab-panel",role:"tabpanel",hidden:!0})),
c=n.map(({key:f,title:u})=>h("button",{type:"button",class:"cl-tab",role:"tab","data-key":f,"aria-controls":`cl-${o}-${f}`,"data-lm-suppress-shortcuts":"true",onclick:()=>i(
f)},u)),i=f=>{s=f,n.forEach((u,d)=>{let p=u.key===f;c[d].setAttribute("aria-selected",String(p)),c[d].tabIndex=p?0:-1,a[d].hidden=!p,p&&r.has(f)&&u.onShow?.(),!(!p||
r.has(f))&&(r.add(f),u.fill(a[d]))})},l=h("div",{class:"cl-tabs",role:"tablist","aria-label":e},...c);return l.addEventListener("keydown",f=>{let u={ArrowRight:1,
ArrowLeft:-1}[f.key];if(u===void 0)return;let d=(c.findIndex(p=>p.dataset.key===s)+u+n.length)%n.length;i(n[d].key),c[d].focus(),f.preventDefault(),f.stopPropagation()}),
t.replaceChildren(l,...a),n.length&&i(n[0].key),{show:i,current:()=>s}}var fh=2,uh=18,dh=18;function ja(t){let e=R(t,"tr[data-depth]",HTMLTableRowElement),n=e.map(c=>Number(c.dataset.depth)),o=n.map((c,i)=>i+1<n.length&&n[i+1]>c),r=n.
map(c=>c<fh);e.forEach((c,i)=>{let l=c.cells[0].querySelector(".cl-place");l&&(l.textContent=l.textContent?.replace(/^[\u203a ]+/,"")??""),c.cells[0].style.paddingInlineStart=
`${uh*n[i]+(o[i]?0:dh)+10}px`});let s=e.map((c,i)=>{if(!o[i])return null;let l=()=>{r[i]=!r[i],a()},f=c.cells[0].textContent,u=h("button",{type:"button",class:"\
cl-fold","aria-label":`Modules in ${f}`});return u.addEventListener("click",d=>{d.stopPropagation(),l()}),c.cells[0].prepend(u),u}),a=()=>{let c=1/0;e.forEach((i,l)=>{
n[l]<=c&&(c=1/0),i.hidden=n[l]>c,s[l]?.setAttribute("aria-expanded",String(r[l])),s[l]&&(s[l].textContent=r[l]?"\u25BE":"\u25B8"),!i.hidden&&o[l]&&!r[l]&&(c=n[l])})};
a()}var Je=0,ee=1,go=2,qa=3,Ya=4,Qe=5,tn=6,Za=7,F=8,Va="ProfilerStep*",hh=new Set(["Trace","overhead","gpu_user_annotation","cuda_sync"]);function Ja(t){let e=Float64Array.
from(t.self),n=new Int32Array(t.n);for(let r=0;r<t.n;r++)n[r]=t.flags[r]&L.folded?n[t.parent[r]]:r,n[r]!==r&&(e[n[r]]+=t.self[r]);let o=t.header.step_names;return{
self:e,key:ph(t,o),steps:o}}function ph({n:t,flags:e,lane:n,name:o,header:r},s){let a=Uint32Array.from(r.names.keys());for(let f of s)a[f]=s[0];let c=Uint8Array.
from(r.lanes,({kind:f})=>+(f==="device")),i=L.folded|L.instant,l=new Int32Array(t);for(let f=0;f<t;f++)l[f]=e[f]&i?-1:a[o[f]]*2+c[n[f]];return l}function*Qa(t,e,n){
let o=mh(2*t.header.names.length);for(let[a,c]of ut(0,t.n))wh(t,e,n,o,a,c),yield;let r=gh(o);for(let[a,c]of ut(0,t.n))bh(t,e,n,r,o,a,c),yield;let s=[...r.keys()].
filter(a=>o[a*F+ee]);return s.sort((a,c)=>o[a*F+Je]-o[c*F+Je]),xh(s.map(a=>yh(t,e,o,a)))}function mh(t){let e=new Float64Array(t*F);for(let n=0;n<e.length;n+=F)
e[n+Qe]=1/0,e[n+tn]=-1/0;return e}function gh(t){return Float64Array.from({length:t.length/F},(e,n)=>t[n*F+go]/t[n*F+ee])}function wh({flags:t,dur:e},{self:n,key:o},r,s,a,c){
for(let i=a;i<c;i++){if(r!==null&&!r[i]||o[i]<0)continue;let l=o[i]*F,f=e[i],u=n[i];s[l+ee]===0&&(s[l+Je]=i),s[l+ee]+=1,s[l+go]+=f,s[l+qa]+=u,t[i]&L.waiting||(s[l+
Ya]+=u),f<s[l+Qe]&&(s[l+Qe]=f),f>s[l+tn]&&(s[l+tn]=f)}}function bh({dur:t},{key:e},n,o,r,s,a){for(let c=s;c<a;c++){if(n!==null&&!n[c]||e[c]<0)continue;let i=t[c]-
o[e[c]];r[e[c]*F+Za]+=i*i}}function yh(t,e,n,o){let r=o>>1,s=e.steps.includes(r),a=n.subarray(o*F,(o+1)*F),[c,i]=[a[ee],a[go]];return{ids:s?e.steps:[r],name:s?Va:
t.header.names[r],short:s?Va:j(t.header,r),side:o&1,cat:t.header.cats[t.cat[a[Je]]],count:c,total:i,self:a[qa],cost:a[Ya],min:a[Qe],max:a[tn],mean:i/c,std:c>1?Math.
sqrt(a[Za]/(c-1)):null}}function xh(t){let e=o=>hh.has(o.cat)?0:o.cost,n=[0,0];for(let o of t)n[o.side]+=e(o);return t.map(({cost:o,...r})=>({...r,share:n[r.side]>
0?100*e({...r,cost:o})/n[r.side]:0}))}var kh={cpu_op:"CPU op",user_annotation:"range",gpu_user_annotation:"GPU range",cuda_runtime:"runtime",cuda_driver:"driver",kernel:"kernel",gpu_memcpy:"copy",gpu_memset:"\
set",python_function:"Python",cuda_sync:"sync",overhead:"overhead"};function Mh({mean:t,std:e}){let n=e!==null?` <span class="spread">\xB1 ${M(e)}</span>`:"";return`${M(
t)}${n}`}function vh({share:t,side:e}){let n=e?"GPU":"CPU";return`<span class="bar"><i style="width:${t.toFixed(1)}%"></i></span>${P(t)} ${n}`}function Ah({name:t,
short:e}){return`<span class="name" title="${ce(t)}">${ce(e)}</span>`}function tc({cat:t}){return kh[t]??t}function Ft(t,e,n,o){let r=e==="name"||e==="cat";return{
title:t,data:e,...r?{}:{className:"number"},render:(s,a,c)=>a==="display"?o(c):n(c),searchable:r,orderSequence:["desc","asc"]}}function en(t,e){return Ft(t,e,n=>n[e],
n=>M(n[e]))}var wo=[Ft("Name","name",t=>`${t.short} ${t.name}`,Ah),Ft("Kind","cat",tc,t=>`<span class="kind">${ce(tc(t))}</span>`),Ft("Count","count",t=>t.count,
t=>C(t.count)),en("Total","total"),en("Self","self"),Ft("Mean \xB1 sd","mean",t=>t.mean,Mh),en("Min","min"),en("Max","max"),Ft("Share of self","share",t=>t.share,
vh)];function yt(t){return wo.findIndex(e=>e.data===t)}var ec=yt("share"),nn=[{width:1e3,columns:[yt("min"),yt("max")]},{width:760,columns:[yt("cat"),yt("total")]},
{width:600,columns:[yt("mean"),yt("count")]}];var nc=`
:host { display: block; container-type: inline-size; --dt-html-background: transparent; --dt-row-selected: var(--cl-selected-rgb); font: inherit; color: inherit\
; }
:host([hidden]) { display: none; }
div.dt-container { background: transparent; color: inherit; font-size: 13px; }
div.dt-container div.dt-layout-row { margin: 6px 0; gap: 8px; }
div.dt-container .dt-info, div.dt-container .dt-length label, div.dt-container .dt-search label { color: var(--cl-muted); font-size: 12px; }
div.dt-container .dt-input { border: 1px solid var(--cl-line) !important; border-radius: 6px; padding: 4px 8px; font: inherit; background: var(--cl-field) !impo\
rtant; color: inherit; }
div.dt-container .dt-input:focus-visible, tr:focus-visible, th:focus-visible, button:focus-visible { outline: 2px solid var(--cl-accent); outline-offset: -1px; \
}
div.dt-container .dt-search input { min-width: 14em; margin-left: 0; }
div.dt-container .dt-paging .dt-paging-button { padding: 2px 8px; border-radius: 6px; border: 1px solid transparent !important; font: inherit; }
div.dt-container .dt-paging .dt-paging-button:hover, div.dt-container .dt-paging .dt-paging-button.current { background: var(--cl-hover) !important; color: inhe\
rit !important; border-color: var(--cl-line) !important; box-shadow: none; }
div.dt-container .dt-paging .dt-paging-button.disabled { opacity: 0.4; background: transparent !important; }
div.sides { display: inline-flex; vertical-align: middle; border: 1px solid var(--cl-line); border-radius: 6px; overflow: hidden; }
div.sides button { border: 0; background: none; color: inherit; font: inherit; font-size: 12px; padding: 3px 12px; cursor: pointer; }
div.sides button + button { border-left: 1px solid var(--cl-line); }
div.sides button[aria-pressed="true"] { background: var(--cl-chosen); font-weight: 600; }
div.dt-container .dt-info { display: inline-block; margin-left: 10px; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) { display: flex; flex-wrap: wrap; gap: 4px 8px; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) div.dt-layout-cell { display: flex; flex-wrap: wrap; align-items: center; ga\
p: 4px 10px; text-align: left; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) div.dt-layout-cell > * { margin: 0; }
table.dataTable { width: 100% !important; border-collapse: collapse !important; font-variant-numeric: tabular-nums; table-layout: auto; }
table.dataTable > thead > tr > th .dt-column-header { gap: 4px; }
table.dataTable > thead > tr > th { border-bottom: 1px solid var(--cl-line) !important; padding: 6px 10px; font-weight: 600; font-size: 12px; color: var(--cl-mu\
ted); white-space: nowrap; text-align: left; }
table.dataTable > thead > tr > th.number, table.dataTable > tbody > tr > td.number { text-align: right; }
table.dataTable > tbody > tr > td { border-top: 1px solid var(--cl-line-soft); padding: 4px 10px; white-space: nowrap; box-shadow: none !important; color: inher\
it; }
table.dataTable > tbody > tr:first-child > td { border-top: 0; }
table.dataTable > tbody > tr { cursor: pointer; background: transparent !important; }
table.dataTable > tbody > tr:hover > td { background: var(--cl-hover); }
table.dataTable > tbody > tr.chosen > td { background: var(--cl-chosen); }
table.dataTable > tbody > tr.current > td { background: var(--cl-hover); }
table.dataTable > tbody > tr:is(.chosen, .current) > td:first-child { box-shadow: inset 3px 0 0 var(--cl-accent) !important; }
table.dataTable > tbody > tr > td.dt-empty { text-align: center; color: var(--cl-muted); padding: 18px; cursor: default; }
td .name { display: inline-block; max-width: clamp(16em, calc(100cqw - 700px), 70em); overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; font-fa\
mily: var(--cl-mono); font-size: 12px; }
td .kind { color: var(--cl-muted); font-size: 12px; }
td .spread { color: var(--cl-muted); }
td .bar { display: inline-block; width: 56px; height: 8px; margin-right: 8px; border-radius: 2px; background: var(--cl-line-soft); vertical-align: middle; overf\
low: hidden; text-align: left; }
td .bar i { display: block; height: 100%; background: var(--cl-accent); }
:host([data-view="narrow"]) :is(td .bar, td .spread) { display: none; }
:host([data-view="narrow"]) td .name { max-width: clamp(12em, calc(100cqw - 460px), 70em); }
:host([data-slim]) td .name { max-width: clamp(12em, calc(100cqw - 250px), 70em); }
:host([data-view="whole"]) { overflow-x: auto; }
button.columns { display: none; border: 1px solid var(--cl-line); border-radius: 6px; background: none; color: inherit; font: inherit; font-size: 12px; padding:\
 3px 10px; cursor: pointer; }
button.columns[aria-pressed="true"] { background: var(--cl-chosen); }
:host(:is([data-view="narrow"], [data-view="whole"])) button.columns { display: inline-block; }
@media print { div.dt-layout-row:not(.dt-layout-table) { display: none !important; } }
`;var Sh=[["All",null],["GPU",1],["CPU",0]];function sc(t,e,{DataTable:n,styleSheet:o,theme:r,onNames:s}){let a=t.shadowRoot??t.attachShadow({mode:"open"}),c=h("t\
able",{class:"display compact","aria-label":"Costs by name"});a.replaceChildren(h("style",{},o),h("style",{},nc),c),n.ext.errMode="throw";let i=Ja(e),l=new Set(
e.header.lanes.map(({kind:m})=>m)).size>1,f={rows:[],side:null,chosen:new Set,current:null,width:0,stage:"shown",isWhole:!1},u=new n(c,{...Eh(),layout:{topStart:l?
[()=>Oh(f,()=>oc(u,f,"summed")),"info"]:"info",topEnd:"search",bottomStart:"pageLength",bottomEnd:"paging"},rowCallback:(m,w)=>rc(m,w,f)});Th(a),Ch(u,f,c,s);let d=Rh(
f,()=>bo(u,f,t));a.append(d);let p=new ResizeObserver(()=>bo(u,f,t));p.observe(t),bo(u,f,t);let g=m=>{t.classList.toggle("dark",m==="dark")};return g(r),{*sum(m){
f.rows=yield*Qa(e,i,m),f.stage="summed"},load:()=>ac(u,f),update:()=>oc(u,f,f.stage),choose(m,w=null){f.chosen=m??new Set,f.current=w,$h(u,f),u.rows({page:"curr\
ent"}).every(function(){rc(this.node(),this.data(),f)})},setTheme:g,rows:()=>f.rows,destroy(){p.disconnect(),u.destroy(),a.replaceChildren()}}}function Th(t){for(let e of t.
querySelectorAll("nav"))e.removeAttribute("aria-label"),e.setAttribute("role","none")}function Eh(){return{columns:wo,data:[],order:[[ec,"desc"]],pageLength:10,
lengthMenu:[10,25,50,100,{label:"all",value:-1}],language:{search:"",searchPlaceholder:"Filter names",info:"_START_\u2013_END_ of _TOTAL_ names",infoEmpty:"no n\
ames",infoFiltered:"(of _MAX_)",lengthMenu:"_MENU_ a page",emptyTable:"Nothing is selected here",zeroRecords:"No name matches the filter"},autoWidth:!1,deferRender:!0}}
function ac(t,e){e.stage==="summed"&&(t.clear().rows.add(e.rows.filter(n=>e.side===null||n.side===e.side)),e.stage="loaded")}function oc(t,e,n){e.stage=n,ac(t,e),
e.stage==="loaded"&&t.draw(),e.stage="shown"}function Oh(t,e){let n=h("div",{class:"sides",role:"group","aria-label":"Where the time went"});for(let[o,r]of Sh){
let s=()=>{t.side=r;for(let a of n.children)a.setAttribute("aria-pressed",String(a.textContent===o));e()};n.append(h("button",{type:"button","aria-pressed":String(
r===null),onclick:s},o))}return n}function $h(t,{current:e}){if(e===null)return;let o=t.rows({search:"applied"}).data().toArray().findIndex(({ids:a})=>a.includes(
e)),{length:r,page:s}=t.page.info();o<0||r<=0||Math.floor(o/r)===s||t.page(Math.floor(o/r)).draw("page")}function rc(t,e,{chosen:n,current:o}){let r=e.ids.some(
s=>n.has(s));t.classList.toggle("current",o!==null&&e.ids.includes(o)),t.classList.toggle("chosen",r),t.setAttribute("aria-selected",String(r)),t.tabIndex=0}function Ch(t,e,n,o){
let r=s=>{let a=s.composedPath().find(_h),c=a&&t.row(a).data();if(!c)return;let i=Lh(e.chosen,c.ids,s.ctrlKey||s.metaKey||s.shiftKey);o(i.size?i:null)};n.addEventListener(
"click",r),n.addEventListener("keydown",s=>{let[a]=s.composedPath();s.key!=="Enter"&&s.key!==" "||!(a instanceof HTMLTableRowElement)||(s.preventDefault(),r(s))})}
function _h(t){return t instanceof HTMLTableRowElement&&t.parentElement?.tagName==="TBODY"}function Lh(t,e,n){let o=e.every(a=>t.has(a)),r=o&&t.size===e.length,
s=new Set(n?t:[]);for(let a of e)n&&o?s.delete(a):(n||!r)&&s.add(a);return s}function bo(t,e,n){let o=e.isWhole?1/0:n.clientWidth;if(o===0||o===e.width)return;e.
width=o;let r=n.clientWidth<nn[0].width;n.setAttribute("data-view",r?e.isWhole?"whole":"narrow":"wide"),n.toggleAttribute("data-slim",o<nn[2].width);for(let{width:s,
columns:a}of nn)t.columns(a).visible(o>=s)}function Rh(t,e){let o=h("button",{type:"button",class:"columns","aria-pressed":"false",onclick:()=>{t.isWhole=!t.isWhole,
o.setAttribute("aria-pressed",String(t.isWhole)),e()}},"All columns");return o}var Ih=1500;function et(t,e,n,o=""){let r=async c=>{if(c.stopPropagation(),n!==null)try{await navigator.clipboard.writeText(n),a.textContent="Copied",setTimeout(
()=>{a.textContent=t},Ih)}catch{a.replaceWith(h("code",{class:"cl-copy-text",tabindex:0},n))}},a=h("button",{...{class:"cl-button cl-copy",type:"button",title:n===
null?o:e},disabled:n===null,"data-text":n},t);return a.addEventListener("click",r),a}function cc(t){let e=a=>(t.querySelector(`.cl-find-${a}`)?.textContent??"").
replace(/\s+/g," ").trim(),n=t.querySelector(".cl-find-what"),o=[...n?.querySelectorAll("p")??[]].map(({textContent:a})=>a?.trim()??""),r=n?.textContent?.replace(
/\s+/g," ").trim()??"";return[`**${o.reduce((a,c)=>a.replace(c.replace(/\s+/g," "),"").trim(),r)}**: ${e("cost")}`,...o,`Try: ${e("try")}`].join(`

`)}var Nh="Waiting for the kernel.",ic=["Finding","Fix","Alone","Result"];function lc(t,e,n){let r=uc("Try it","Run the cell with and without the fix of this findi\
ng; nothing of the notebook is changed",e,()=>Ph(t),n);t.lastElementChild?.append(" ",r)}function fc(t,e){let n="Try the fix of each finding, and keep what help\
s; nothing of the notebook is changed",o=h("div",{class:"cl-tried cl-tried-all"}),r=uc("Try all",n,null,()=>o,e);t.after(h("p",{class:"cl-try-all"},r),o)}function uc(t,e,n,o,r){
let s=h("button",{class:"cl-button cl-copy cl-try",type:"button",title:e},t),a=async c=>{let i=o();s.disabled=!0;let l=h("p",{class:"cl-try-progress",role:"stat\
us"},Nh);i.replaceChildren(l);try{let f=await r({finding:n,consent:c},u=>{l.textContent=u});i.replaceChildren(...f.effects?Hh(f.effects,i,a):Fh(f)),f.effects||(s.
textContent=`${t==="Try all"?t:"Try"} again`)}catch(f){let u=f instanceof Error?f.message:String(f);i.replaceChildren(h("p",{class:"cl-try-error",role:"alert"},
`Not tried: ${u}`))}finally{s.disabled=!1}};return s.addEventListener("click",c=>{c.stopPropagation(),a(!1)}),s.addEventListener("keydown",c=>c.stopPropagation()),
s}function Ph(t){let e=t.nextElementSibling;if(e?.classList.contains("cl-tried")&&e.firstElementChild)return e.firstElementChild;let n=h("td",{colspan:String(t.
children.length),"data-label":"","data-wide":""});return t.after(h("tr",{class:"cl-tried"},n)),n}function Hh(t,e,n){let o=()=>e.replaceChildren(),r=[h("button",
{class:"cl-button cl-try-consent",type:"button",onclick:()=>{n(!0)}},"Run the cell")," ",h("button",{class:"cl-button",type:"button",onclick:o},"Cancel")];return[
h("p",{role:"status"},"A try runs the cell many times. It has effects that are not undone:"),dc(t),h("p",{},...r)]}function Fh({headline:t,title:e,rows:n,notes:o,
diff:r,code:s}){let a=[h("p",{role:"status"},h("strong",{},t))];return e&&a.push(h("p",{},`Fix: ${e}`)),o.length&&a.push(dc(o)),n?.length&&a.push(Bh(n)),r&&a.push(
h("pre",{class:"cl-diff",tabindex:"0"},...r.split(`
`).map(Dh))),s&&a.push(et("Copy the fixed cell","Copy the text of the cell with the fix",s)),a}function dc(t){return h("ul",{},...t.map(e=>h("li",{},e)))}function Bh(t){
let e=h("tr",{},...ic.map(o=>h("th",{scope:"col"},o))),n=t.map(o=>h("tr",{},...o.map((r,s)=>zh(r,ic[s]))));return h("table",{class:"cl-try-results"},h("thead",{},
e),h("tbody",{},...n))}function zh(t,e){return h("td",{"data-label":t?e:""},e==="Finding"?h("code",{},t):t)}function Dh(t){let o=t.startsWith("+++")||t.startsWith(
"---")?null:{"+":"cl-added","-":"cl-removed"}[t[0]]??null;return h("span",{class:o},`${t}
`)}function yo(t,e){return h("h3",{"aria-level":2,class:e?null:"cl-unseen"},t)}async function hc({source:t,parts:e,panels:n,isClosed:o}){let r=await po(await t.races());
if(o())return;let s=h("div",{class:"cudalens-races"}),{hasProfile:a,hasGraphs:c}=t.facts;e.races.append(yo("Races",a||c),s),e.races.hidden=!1,n.races=Ba(s,r,{onChoose:i=>n.
timeline?.showRace(i.row)})}async function pc({source:t,parts:e,panels:n,isClosed:o}){let r=await po(await t.graphs());if(o())return;let s=h("div",{class:"cudal\
ens-graphs"}),{hasProfile:a,hasRaces:c}=t.facts;e.graphs.append(yo("CUDA graphs",a||c),s),e.graphs.hidden=!1,n.graphs=Hs(s,r)}async function xo(t){let{source:e,
parts:n}=t,{memoryMap:o,memoryFirst:r}=e.facts,s=await e.memory();if(t.isClosed())return;let a=h("div",{class:"mm-host"}),c=h("div",{class:"cudalens-memory"},...o?
[G(o)]:[]);n.memoryMap.append(yo("Memory",!r),a,c),n.memoryMap.hidden=!1,t.panels.memoryMap=await Ia(a,s,{theme:t.theme})}function mc({source:t,parts:e,store:n},o){
if(!t.facts.findings)return;e.findings.append(G(t.facts.findings));let{tryFindings:r}=t;R(e.findings,"tbody tr",HTMLElement).forEach((a,c)=>{let i=cc(a);a.lastElementChild?.
append(" ",et("Copy","Copy this finding as Markdown",i)),r&&lc(a,c+1,r)});let s=e.findings.querySelector("table");r&&s&&fc(s,r),ko(e.findings,"tbody tr[data-eve\
nt]",a=>{let c=o.eventOf(Number(a.dataset.event));return c>=0&&n.set({event:c,range:null,names:null},"findings"),c>=0}),e.findings.hidden=!1}function gc({source:t,
parts:e,panels:n}){t.facts.syncs&&(e.syncs.append(G(t.facts.syncs)),ko(e.syncs,"tbody tr",(o,r)=>(n.timeline?.showSync(r),!0)),e.syncs.hidden=!1)}function ko(t,e,n){
let o=R(t,e,HTMLElement);o.forEach((r,s)=>{let a=()=>{if(n(r,s))for(let c of o)c.toggleAttribute("data-chosen",c===r)};r.tabIndex=0,r.addEventListener("click",a),
r.addEventListener("keydown",c=>{c.key==="Enter"&&a()})})}function wc(t,e){let{parts:n,panels:o,source:r,store:s}=t;return Xa(n.table,"Costs",[{key:"table",title:"\
Operators and kernels",fill:a=>a.append(n.tableHost)},{key:"flame",title:"Flame graph",fill(a){o.flame=Ns(a,e,{theme:t.theme,baseline:r.facts.baseline,onEvent:c=>s.
set({event:c,range:null,names:null},"flame")}),V(o.flame.update(s.get()))},onShow:()=>o.flame?.shown()},...Uh.flatMap(([a,c])=>{let i=r.facts[a];return i?[{key:a,
title:c,fill:l=>Wh(t,e,l,a,i)}]:[]})])}var Uh=[["lines","Lines"],["modules","Modules"],["steps","Steps"]];function Wh({store:t},e,n,o,r){let s=h("div",{class:`c\
udalens-${o}`},G(r));for(let a of s.querySelectorAll("details:first-child"))a.setAttribute("open","");ja(s),n.append(s),ko(s,"tbody tr[data-event]",a=>{let c=e.
eventOf(Number(a.dataset.event));return c>=0&&t.set({event:c,range:null,names:null},o),c>=0})}async function bc(t,e){let{asset:n,versions:o,sender:r}=t.source,[
s,a]=await Promise.all([mo("datatables.js",o.datatables,n,r),n("datatables.css").then(Ze)]);t.isClosed()||(t.panels.table=sc(t.parts.tableHost,e,{DataTable:s,styleSheet:new TextDecoder().
decode(a),theme:t.theme,onNames:c=>t.store.set({names:c},"table")}))}function yc({source:t,parts:e,panels:n,theme:o},r){if(!r.metrics.length)return;let s=h("div",
{class:"cl-metrics-host"}),a=h("h3",{"aria-level":2},"GPU readings",h("span",{},t.facts.metrics??""));e.metrics.replaceChildren(a,s),e.metrics.hidden=!1;let c=kc(
r,r.metrics);n.metrics=gs(s,r.metrics,r.header.metrics.gauges,{theme:o,view:c})}async function xc(t,e){if(t.isClosed())return;let{parts:n,panels:o,source:r,store:s}=t,
a=Gh(e),c=h("h3",{"aria-level":2},"Memory");if(o.memoryMap||!a.length){n.memory.hidden=!0;return}let i=h("div",{class:"cl-plot-host"},h("p",{class:"cl-hint"},"L\
oading the memory curve\u2026"));n.memory.replaceChildren(c,i),await No(i,t.cleanups);let l=await mo("plotly.js",r.versions.plotly,r.asset,r.sender);if(t.isClosed())
return;i.replaceChildren();let f=ds(i,a,{Plotly:l,theme:t.theme,view:e.n&&o.timeline?.getView()||kc(e,a),onRange:d=>s.set({range:d},"memory")});o.memory=f,await f.
ready;let{range:u}=s.get();u&&f.setRange(u)}function Gh(t){return t.memory.map(({label:e,ts:n,allocated:o})=>{let r=[...o.keys()].filter(s=>!Number.isNaN(o[s]));
return{label:e,ts:Float64Array.from(r,s=>n[s]),values:Float64Array.from(r,s=>o[s])}}).filter(e=>e.ts.length)}function kc(t,e){if(t.n)return fe(kt(t,!0));let n=e.
flatMap(({ts:o})=>[o[0],o[o.length-1]]);return[Math.min(...n),Math.max(...n)+1]}function vc(t,e,{range:n,event:o,names:r},s=[]){let a=[`t=${Mo(e)}`];n&&a.push(`s=${Mo(n)}`),o!==null&&a.push(`e=${t.rowOf(o)}`);for(let c of[...r??[]].slice(0,
20))a.push(`n=${encodeURIComponent(t.header.names[c])}`);for(let{at:c,dur:i,note:l}of s.slice(0,50))a.push(`m=${Mo([c,c+i])}:${encodeURIComponent(l)}`);return`#${a.
join("&")}`}function Mo([t,e]){return`${Math.round(t)}-${Math.round(e)}`.replace("--","-n").replace(/^-/,"n")}function Ac(t,e){let n=new URLSearchParams(e.replace(
/^#/,"")),o={},r=Mc(n.get("s"));r&&(o.range=r);let s=Number.parseInt(n.get("e")??"",10),a=Number.isInteger(s)?t.eventOf(s):-1;a>=0&&(o.event=a);let i=n.getAll("\
n").map(l=>t.header.names.indexOf(l)).filter(l=>l>=0);return i.length&&(o.names=new Set(i)),{view:Mc(n.get("t")),selection:o,marks:n.getAll("m").slice(0,50).flatMap(
Kh)}}function Kh(t){let[e,...n]=t.split(":"),[o,r]=Sc(e)??[1,0];return o<=r?[{at:o,dur:r-o,note:n.join(":")}]:[]}function Mc(t){let e=Sc(t);return e&&e[0]<e[1]?
e:null}function Sc(t){let e=/^(n?\d{1,16})-(n?\d{1,16})$/.exec(t??"");if(!e)return null;let[n,o]=[e[1],e[2]].map(r=>Number(r.replace("n","-")));return[n,o]}function Tc(t,{event:e,names:n},o){let r=n??(e===null?null:new Set([t.name[e]]));if(r===null)return null;let s=e===null?null:t.header.lanes[t.lane[e]].kind,a=[];
for(let l=0;l<t.n;l++){let f=s===null||n!==null||t.header.lanes[t.lane[l]].kind===s;r.has(t.name[l])&&f&&a.push(l)}if(!a.length)return null;a.sort((l,f)=>t.start[l]-
t.start[f]||l-f);let c=e===null?-1:a.indexOf(e),i=c<0?Xh(t,a):(c+o+a.length)%a.length;return{event:a[i],ordinal:i+1,count:a.length}}function Xh({dur:t},e){return e.
reduce((n,o,r)=>t[o]>t[e[n]]?r:n,0)}function*Ec(t,e,n,o){let r=n.get(),s=Q(e,r);if(t.hidden=s===null,s===null)return;let a=0;for(let l=0;l<e.n;l++)a+=s[l];let c=r.range?[jh(e,r.range,yield*zo(e,r.
range))]:[],i=o.link();t.replaceChildren(h("span",{class:"cl-bar-count"},`${_(a,"event")} of ${C(e.n)} selected`),...qh(e,r).map(([l,f])=>Yh(n,l,f)),...c.map(l=>h(
"span",{class:"cl-measure"},l)),...Vh(e,n),...es(e,r,o.mark),et("Copy pandas","Copy the expression that selects these rows",ss(e,r),"More than 2,000 rows"),...i===
null?[]:[et("Copy link","Copy the address of what shows",i)],h("button",{class:"cl-button cl-clear",type:"button",onclick:()=>n.clear("bar")},"Clear selection"))}
function jh(t,e,{busy:n,idle:o,work:r,calls:s}){let a=`${_(s,"CPU event")}`;if(!t.header.lanes.some(({kind:i,count:l})=>i==="device"&&l))return a;let c=P(100*n/
(e[1]-e[0]));return`GPU busy ${M(n)} (${c}), idle ${M(o)}; ${_(r,"GPU event")}, ${a}`}function Vh(t,e){let{event:n,names:o}=e.get();if(n===null&&o===null)return[];
let r=a=>()=>{let c=Tc(t,e.get(),a);c&&e.set({event:c.event,names:null,range:null},"bar")},s=(a,c,i)=>h("button",{class:"cl-button",type:"button",title:c,"aria-\
label":c,onclick:r(i)},a);return n===null?[s("Go to the longest","Select the longest event of this name",1)]:[s("\u2039 same name","Previous event of this name",
-1),s("same name \u203A","Next event of this name",1)]}function qh(t,{range:e,event:n,names:o}){let r=[];if(e){let[s,a]=e;r.push(["range",`${M(s)} \u2013 ${M(a)}\
 (${M(a-s)})`])}if(n!==null&&r.push(["event",`within ${j(t.header,t.name[n])}`]),o){let[s]=[...o].map(a=>j(t.header,a));r.push(["names",o.size===1?s:`${s} and ${o.
size-1} more`])}return r}function Yh(t,e,n){let o=()=>t.set({[e]:null},"bar");return h("span",{class:"cl-chip",title:n},h("span",{},n),h("button",{type:"button",
"aria-label":`Stop selecting ${n}`,onclick:o},"\xD7"))}function Oc(t,e){let n=h("div",{class:"cl-table-host"}),o={verdict:h("p",{class:"cl-verdict"},...Jh(e.badge),...Qh(e.verdict)),copyVerdict:et("Copy","Copy this \
answer as text",Zh(e)),message:h("div",{class:"cl-message",role:"alert",hidden:!0}),status:h("p",{class:"cl-hint cl-status"},"Loading the timeline\u2026"),races:X(
"cl-races","Races"),graphs:X("cl-graphs","CUDA graphs"),findings:X("cudalens-findings","Findings"),memoryMap:X("cl-memory-map","Memory"),part:h("p",{class:"cl-h\
int cl-part",hidden:!0}),timeline:h("div",{class:"cl-timeline"}),metrics:X("cl-metrics","Readings of the GPUs"),syncs:X("cudalens-syncs","Waits for the GPU"),bar:h(
"div",{class:"cl-bar",hidden:!0}),marks:X("cl-marks","Marks"),table:X("cl-panel cl-table","Costs"),tableHost:n,details:X("cl-panel cl-details","Details of the s\
elected event"),memory:X("cl-panel cl-memory","Memory curve")};return t.replaceChildren(h("div",{class:"cl-verdict-row"},o.verdict,o.copyVerdict),...tp(e.details),
...ep(e.notes),o.message,o.status,...e.graphsFirst?[o.graphs,o.races]:[o.races,o.graphs],...e.memoryFirst?[o.memoryMap]:[],o.part,o.timeline,o.details,o.bar,o.marks,
o.metrics,o.findings,o.syncs,o.table,o.memory,...e.memoryFirst?[]:[o.memoryMap]),o}function X(t,e,...n){return h("section",{class:t,role:"group","aria-label":e,
hidden:!0},...n)}function Zh({badge:t,verdict:e,details:n}){return[t?`[${t}] ${e}`:e,...n?[n]:[]].join(`
`)}function Jh(t){return t?[h("span",{class:"cl-badge"},t)," "]:[]}function Qh(t){let e=t.indexOf("; ");return e<0?[h("strong",{},t)]:[h("strong",{},t.slice(0,e)),
t.slice(e)]}function tp(t){return t?[h("details",{class:"cl-support"},h("summary",{},"more figures"),h("p",{},t))]:[]}function ep(t=[]){return t.length?[h("ul",
{class:"cl-notes"},...t.map(e=>h("li",{},e)))]:[]}var np=120,op=5e4;function Cc(t,e){let n=le();t.classList.add("cudalens"),t.dataset.theme=n,t.dataset.state="loading";let o={root:t,source:e,parts:Oc(t,e.facts),
store:rs(),panels:{},marks:null,tabs:null,theme:n,data:null,isOpen:!0,isClosed:()=>!o.isOpen,following:void 0,tableMask:void 0,updating:[],cleanups:[Ho(s=>$c(o,
s))]};return{ready:rp(o).catch(s=>o.isOpen&&Rc(o,s)),get data(){return o.data},panels:o.panels,get tabs(){return o.tabs},selection:o.store,showStatus(s){o.parts.
status.textContent=s},setTheme:s=>$c(o,s),destroy:()=>gp(o)}}async function rp(t){let{source:e}=t,{hasRaces:n,hasGraphs:o,hasProfile:r,memoryFirst:s,memoryAlone:a}=e.
facts;if(n&&await xt(t,"list of races",()=>hc(t)),o&&await xt(t,"graph tree",()=>pc(t)),t.isClosed())return;if(s&&await xt(t,"memory map",()=>xo(t)),mp(t),!r||a){
await ip(t);return}let c=await Io(await e.payload());t.isClosed()||(t.data=c,await sp(t,c))}async function sp(t,e){let{parts:n,source:o,root:r}=t;o.onData?.(),n.
status.remove(),t.panels.timeline=qr(n.timeline,e,{theme:t.theme,onSelect:s=>t.store.set(s,"timeline"),onTime:s=>lp(t,[...s])}),ap(t,e),cp(t),yc(t,e),mc(t,e),gc(
t),o.facts.memoryMap&&!o.facts.memoryFirst&&await xt(t,"memory map",()=>xo(t)),t.store.subscribe((s,a)=>fp(t,e,s,a)),t.tabs=wc(t,e),n.table.hidden=!1,n.memory.hidden=
!1,await vo(),r.dataset.state="painted",o.onPaint?.(),await Promise.all([xt(t,"table",async()=>{await bc(t,e),V(_c(t,e,t.store.get())),Lc(t,e,t.store.get())}),xt(
t,"list of details",()=>e.detailsReady)]),xt(t,"memory curve",()=>xc(t,e)),t.isOpen&&o.hash&&hp(t,e,o.hash),t.isOpen&&(r.dataset.state="ready")}function ap({parts:t},{
n:e,header:n}){if(!n.first_row)return;let[o,r]=[n.num_all,e].map(s=>s.toLocaleString("en"));t.part.textContent=`This page has the last ${r} of ${o} events, from\
 ${M(n.begin)} on: the timeline, the table of operators and kernels, the flame graph, the memory curve and the readings show these. Verdict, findings, lines, mo\
dules and steps are of the whole run.`,t.part.hidden=!1}function cp(t){let{source:e,panels:n,store:o,parts:r}=t;t.marks=ts(r.marks,e.facts.marks,{onChange(s){n.
timeline?.setMarks(s),e.onMarks?.(s)},onShow({at:s,dur:a}){let c=Math.max(a*.5,500);n.timeline?.zoomTo(s-c,s+a+c),a&&o.set({range:[s,s+a],event:null},"marks")}}),
n.timeline?.setMarks(t.marks.marks)}async function ip(t){t.parts.status.remove(),t.parts.timeline.hidden=!0,t.source.onData?.(),await vo(),t.source.onPaint?.(),
t.isOpen&&t.root.dataset.state!=="failed"&&(t.root.dataset.state="ready")}function vo(){return new Promise(t=>{let e=setTimeout(t,250);requestAnimationFrame(()=>setTimeout(
()=>{clearTimeout(e),t()}))})}async function xt(t,e,n){try{await n()}catch(o){t.isOpen&&Rc(t,o,`The ${e} cannot be shown`)}}function lp(t,e){t.panels.metrics?.setView(
e),clearTimeout(t.following),t.following=setTimeout(()=>t.isOpen&&t.panels.memory?.setView(e),np)}function fp(t,e,n,o){let{timeline:r,memory:s,memoryMap:a,races:c}=t.
panels,{range:i,event:l,names:f}=n;o!=="timeline"&&(r?.setRange(i?.[0]??null,i?.[1]),r?.setNames(f),r?.select(l)),o!=="memory"&&s?.setRange(i),i&&a?.showStretch(
i,e.header.t0),t.parts.details.hidden=l===null,Qr(t.parts.details,e,l,t.store,r);let u=r?.raceOf(l)??null;u!==null&&c?.choose(u),t.source.onSelect?.(pp(e,n));let d=[
()=>{Q(e,n)},()=>Ec(t.parts.bar,e,t.store,{link:()=>dp(t,e),mark:p=>t.marks?.add(p)}),()=>_c(t,e,n),()=>t.panels.table?.load(),()=>Lc(t,e,n),()=>t.panels.flame?.
update(n)];e.n>op?up(t,d):Fo(d)}async function up(t,e){t.updating=e,await Bo(e,vo,()=>!t.isOpen||t.updating!==e)}function dp({source:t,panels:e,store:n,marks:o},r){
return!t.address||!e.timeline?null:t.address(vc(r,e.timeline.getView(),n.get(),o?.marks))}function hp({panels:t,store:e,marks:n},o,r){let{view:s,selection:a,marks:c}=Ac(
o,r);c.length&&n&&(n.replace(c),t.timeline?.setMarks(n.marks)),Object.keys(a).length&&e.set(a,"link"),s&&t.timeline?.zoomTo(...s)}function*_c(t,e,n){let{table:o}=t.
panels,r=Q(e,{...n,names:null,event:null});o&&r!==t.tableMask&&(yield*o.sum(r)),o&&(t.tableMask=r)}function Lc({panels:{table:t}},e,{names:n,event:o}){t?.update(),
t?.choose(n,o===null?null:e.name[o])}function pp(t,{range:e,event:n,names:o}){return{range:e&&[...e],event:n===null?null:t.rowOf(n),names:o&&[...o].map(r=>t.header.
names[r]),name_rows:o&&Rn(t,o)}}function mp(t){let e=t.root.clientWidth,n=new ResizeObserver(()=>{t.root.clientWidth!==e&&(e=t.root.clientWidth,t.panels.memory?.
resize(),t.panels.flame?.resize(),t.panels.metrics?.resize(),t.panels.memoryMap?.resize())});n.observe(t.root),t.cleanups.push(()=>n.disconnect())}function $c(t,e){
t.theme=e,t.root.dataset.theme=e;for(let n of Object.values(t.panels))n.setTheme(e)}function Rc({root:t,parts:e,source:n,data:o},r,s="The live view cannot be sh\
own"){let a=r instanceof ie;if(a&&!o){t.dataset.state="failed",n.onGone?.();return}e.status.remove(),e.message.hidden=!1,e.message.append(h("p",{},`${s}: ${r instanceof
Error?r.message:r}`)),t.dataset.state="failed",n.onFail?.(),a||console.error(r)}function gp(t){t.isOpen=!1,clearTimeout(t.following);for(let e of Object.values(
t.panels))e.destroy();for(let e of t.cleanups.splice(0))e();t.root.replaceChildren()}function on(t){let e=document.getElementById(t);if(e===null)throw new Error(`the report has no element ${t}`);return e}function Ic(t){return on(t).textContent??
""}async function ne(t){let e=Ic(t),n=Uint8Array;if(n.fromBase64)return n.fromBase64(e);let o=atob(e),r=new Uint8Array(o.length);for(let s=0;s<o.length;s++)r[s]=
o.charCodeAt(s);return r}function wp(){let t=on("cudalens-app"),e=on("cudalens-static"),n=JSON.parse(Ic("cudalens-facts")),o=Cc(t,{...n,payload:()=>ne("cudalens\
-payload"),races:()=>ne("cudalens-races"),graphs:()=>ne("cudalens-graphs"),memory:()=>ne("cudalens-memory"),asset:r=>ne(`cudalens-${r}`),hash:location.hash,address:r=>`${location.
href.split("#")[0]}${r}`,onData(){e.hidden=!0,t.hidden=!1},onPaint:()=>{performance.mark("cudalens-painted")},onFail(){t.hidden=!1}});Reflect.set(globalThis,"cu\
dalensReport",o),bp(on("cudalens-theme"))}function bp(t){t.hidden=!1,t.addEventListener("click",()=>{let e=document.documentElement,n=e.dataset.theme??(matchMedia(
"(prefers-color-scheme: dark)").matches?"dark":"light");e.dataset.theme=n==="dark"?"light":"dark"})}wp();
