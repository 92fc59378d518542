/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function hi(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function je(t){
return new Error(`cudalens payload: ${t}. Save the trace again with the same version of cudalens.`)}async function oe(t){if(t.byteLength<12||String.fromCharCode(
...t.subarray(0,4))!=="CLP1")throw je(`found ${t.byteLength} bytes that do not begin with CLP1`);let e=new DataView(t.buffer,t.byteOffset,t.byteLength),n=e.getUint32(
4,!0)===1,o=([a,i])=>{let c=a+i;if(c>t.byteLength)throw je(`it ends at byte ${t.byteLength}, ${c} expected`);let l=t.subarray(a,c);return n?hi(l):l},r=e.getUint32(
8,!0),s=JSON.parse(new TextDecoder().decode(await o([12,r])));if(s.version!==1)throw je(`found version ${s.version}, expected 1`);return{header:s,places:pi(s,12+
r),read:o}}function pi(t,e){let n=new Map,o=e;for(let[r,s]of Object.entries(t.columns)){let a=[];for(let i of"text"in s?[s.text]:s.planes)a.push(i<0?i:[o,i]),i>
0&&(o+=i);n.set(r,a)}return n}async function uo({header:t,places:e,read:n},o){let{n:r,signed:s}=t.columns[o],a=e.get(o)??[],i=await Promise.all(a.map(c=>typeof c==
"number"?-1-c:n(c)));return{n:r,signed:s,planes:i}}async function F(t,e){let{n,signed:o,planes:r}=await uo(t,e);if(r.length>4||o&&r.length===4)return mi(r,n,o);
let s=new Uint32Array(n);if(r.forEach((i,c)=>{if(typeof i=="number"){if(i)for(let l=0;l<n;l++)s[l]|=i<<8*c}else if(c===0)for(let l=0;l<n;l++)s[l]=i[l];else for(let l=0;l<
n;l++)s[l]|=i[l]<<8*c}),!o)return s;let a=new Int32Array(s.buffer);for(let i=0;i<n;i++)a[i]=s[i]>>>1^-(s[i]&1);return a}function mi(t,e,n){let o=new Float64Array(
e),r=(s,a)=>{let i=t[s]??0;return typeof i=="number"?i:i[a]};for(let s=0;s<e;s++){let a=(r(0,s)|r(1,s)<<8|r(2,s)<<16|r(3,s)<<24)>>>0,i=(r(4,s)|r(5,s)<<8|r(6,s)<<
16|r(7,s)<<24)>>>0,c=a&1,l=(a>>>1|(i&1)<<31)>>>0;if(!n)o[s]=i*4294967296+a;else{let f=(i>>>1)*4294967296+l;o[s]=c?-f-1:f}}return o}async function ho(t,e){let{n,
signed:o,planes:r}=await uo(t,e),s=new BigUint64Array(n),a=new Uint8Array(s.buffer);if(r.forEach((i,c)=>{for(let l=0;l<n;l++)a[8*l+c]=typeof i=="number"?i:i[l]}),
o)for(let i=0;i<n;i++)s[i]=s[i]>>1n^BigInt.asUintN(64,-(s[i]&1n));return s}async function Q({places:t,read:e},n){let[o]=t.get(n);return JSON.parse(new TextDecoder().
decode(await e(o)))}async function po(t){let{devices:e,actions:n}=t.header.memory,o=["ts","device","action","bytes","allocated_bytes","reserved_bytes","event"],r=await Promise.all(
o.map(d=>F(t,`mem.${d}`))),[s,a,i,c,l,f,u]=r.map(d=>Float64Array.from(d));for(let d=1;d<s.length;d++)s[d]+=s[d-1],u[d]+=u[d-1];for(let d of[l,f])gi(d,a,e.length);
return e.map((d,p)=>{let g=[...a.keys()].filter(w=>a[w]===p),m=w=>Float64Array.from(g,y=>w[y]);return{label:d,actions:n,ts:m(s),bytes:m(c),allocated:m(l),reserved:m(
f),action:m(i),event:m(u)}})}function gi(t,e,n){let o=new Float64Array(n);for(let r=0;r<t.length;r++){o[e[r]]+=t[r];let s=o[e[r]];t[r]=s===0?Number.NaN:s-1}}async function mo(t){
let{devices:e,gauges:n,reasons:o}=t.header.metrics;return Promise.all(e.map((r,s)=>wi(t,n,{label:r,k:s,reasons:o})))}async function wi(t,e,{label:n,k:o,reasons:r}){
let s=["ts","slowed_by",...e.map(({column:u})=>u)],[a,i,...c]=await Promise.all(s.map(u=>F(t,`met.${o}.${u}`))),l=Float64Array.from(a);for(let u=1;u<l.length;u++)
l[u]+=l[u-1];let f=e.map(({scale:u},d)=>Float64Array.from(c[d],p=>p===0?Number.NaN:(p-1)/u));return{label:n,ts:l,slowed:i,reasons:r,values:Object.fromEntries(e.
map(({column:u},d)=>[u,f[d]]))}}async function go(t,e){for(let{name:n,coding:o}of t.header.details)e.set(n,await(o==="dictionary"?bi(t,n):yi(t,n)))}async function bi(t,e){
let[n,o]=await Promise.all([F(t,`${e}.codes`),Q(t,`${e}.values`)]);return r=>n[r]?o[n[r]-1]:null}async function yi(t,e){let[n,o]=await Promise.all([F(t,`${e}.kn\
own`),ho(t,`${e}.steps`)]);for(let s=1;s<o.length;s++)o[s]+=o[s-1];let r=new Uint32Array(n.length);for(let s=0,a=0;s<n.length;s++)r[s]=n[s]?++a:0;return s=>r[s]?
String(BigInt.asIntN(64,o[r[s]-1])):null}var C={instant:1,folded:2,outside:4,launched:8,waiting:16};function wo(t,e,n,o,r){let s=new Float64Array(e),a=new Float64Array(e),i=[],c=[],l=()=>{let u=i.pop(),
d=c[i.length+1],p=(d<0?s[u]:d)+r[u];a[u]=p-s[u],c[i.length]=p},f=0;for(let u of t){c[0]=0;for(let d=f+u.count;f<d;f++){for(let m=n[f];m>0;m--)l();let p=i.length,
g=c[p];s[f]=(g<0?s[i[p-1]]:g)+o[f],i.push(f),c[p+1]=-1}for(;i.length;)l()}return{start:s,dur:a}}function bo({n:t,start:e,dur:n,flags:o,header:r}){let s=n.slice(),
a=new Int32Array(t).fill(-1),i=new Uint16Array(t),c=new Int32Array(t+1),l=0;for(let f of r.lanes){let u=l+f.count;if(f.kind==="device"){l=u;continue}let d=0;for(;l<
u;l++){if(o[l]&C.outside)continue;let p=Math.max(e[l]+n[l],e[l]+1);for(;d&&e[c[d-1]]+n[c[d-1]]<p;)d--;d&&(a[l]=c[d-1],s[a[l]]-=n[l],i[l]=d),c[d++]=l}}return{own:s,
parent:a,depth:i}}function yo(t,e,n,o,r){let s=new Int32Array(t).fill(-1),a=new Set(o),i=[];for(let c=0;c<t;c++)a.has(n[c])&&i.push(c);for(let c=0,l=0,f=-1;c<t;c++)
e[c]&C.launched&&(f+=r[l++]+1,s[c]=i[f]);return s}function xo({start:t,dur:e,header:n,n:o},r,s){let a=xi(n.lanes),i=n.first_row,c=new Map,l=new Map;for(let d=0,p=0;d<r.length;d++)p+=r[d],c.set(p,p+s[d]),l.set(p+
s[d],p);let f=d=>a.reduce((p,{from:g,to:m})=>p+Xe(g,m,w=>t[w]>=d)-g,0),u=d=>{let p=vi(d,t,a,f),g=[];for(let{from:m,to:w}of a)for(let y=Xe(m,w,b=>t[b]>=p);y<w&&t[y]===
p;y++)g.push(y);return g.sort((m,w)=>e[w]-e[m])[d-f(p)]};return{rowOf(d){let p=a.findIndex(({to:m})=>d<m),g=d-a[p].from;return a.forEach(({from:m,to:w},y)=>{if(y===
p)return;g+=Xe(m,w,v=>t[v]>t[d]||t[v]===t[d]&&(y<p?e[v]<e[d]:e[v]<=e[d]))-m}),i+(c.get(g)??g)},eventOf(d){let p=d-i;return Number.isInteger(p)&&p>=0&&p<o?u(l.get(
p)??p):-1}}}function xi(t){let e=0;return t.map(({count:n})=>(e+=n,{from:e-n,to:e}))}function Xe(t,e,n){let[o,r]=[t,e];for(;o<r;){let s=o+r>>1;n(s)?r=s:o=s+1}return o}
function vi(t,e,n,o){let r=n.filter(({from:i,to:c})=>c>i),s=Math.min(...r.map(({from:i})=>e[i])),a=Math.max(...r.map(({to:i})=>e[i-1]))+1;for(;a-s>1;){let i=Math.
floor((s+a)/2);o(i)<=t?s=i:a=i}return s}function W(t,e){return t.short[e]??t.names[e]}async function Mo(t){let e=await oe(t),[n,o]=await Promise.all([Mi(e),Q(e,"names")]),r={...e.header,names:o},{n:s,
lanes:a}=r,i=Uint8Array.from(n.flags),c={header:r,n:s,flags:i,...wo(a,s,n.closed,n.gap,n.tail)},{own:l,parent:f,depth:u}=bo(c);Ti(l,n.self_at,n.self_off);let d=await po(
e),p=await mo(e),g=new Map,m=new Promise(w=>setTimeout(w,0)).then(()=>go(e,g));return m.catch(()=>{}),{...c,...ki(r,n),lane:Ai(a,s),self:l,parent:f,depth:u,launch:yo(
s,i,n.kind,n.launchers,n.launch),...xo(c,n.row_at,n.row_off),memory:d,metrics:p,detail:w=>Object.fromEntries([...g].map(([y,b])=>[y,b(w)])),detailOf:w=>g.get(w)??
(()=>null),detailsReady:m}}var vo=["closed","gap","tail","kind","kind_name","kind_cat","flags","launch","launchers","self_at","self_off","row_at","row_off"];async function Mi(t){
let e=await Promise.all(vo.map(n=>F(t,n)));return Object.fromEntries(vo.map((n,o)=>[n,e[o]]))}function ki({n:t,cats:e},{kind:n,kind_name:o,kind_cat:r}){let s=new Uint32Array(
t),a=e.length>256?new Uint16Array(t):new Uint8Array(t);for(let i=0;i<t;i++)s[i]=o[n[i]],a[i]=r[n[i]];return{name:s,cat:a}}function Ai(t,e){let n=t.length>65536?
new Uint32Array(e):new Uint16Array(e),o=0;return t.forEach(({count:r},s)=>{n.fill(s,o,o+r),o+=r}),n}function Ti(t,e,n){let o=0;for(let r=0;r<e.length;r++)o+=e[r],
t[o]+=n[r]}var Ve="http://www.w3.org/2000/svg";function h(t,e={},...n){let o=document.createElement(t);for(let[r,s]of Object.entries(e))s==null||s===!1||(typeof s=="functi\
on"?o.addEventListener("click",s):o.setAttribute(r,s===!0?"":String(s)));return o.append(...n.filter(r=>r!=null)),o}function z(t,e={},...n){let o=document.createElementNS(
Ve,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,String(s));return o.append(...n),o}var Si={"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"};function re(t){
return t.replace(/[&<>"']/g,e=>Si[e])}function ko(t,e){return new Promise(n=>{let o=()=>{s.disconnect(),removeEventListener("beforeprint",r)},r=()=>{o(),n()},s=new IntersectionObserver(
a=>a.some(i=>i.isIntersecting)&&r(),{rootMargin:"200px"});s.observe(t),addEventListener("beforeprint",r),e.push(o)})}function N(t,e){let n=t.getContext("2d",e);
if(n===null)throw new Error("this browser cannot draw on a canvas");return n}function _(t,e,n){return[...t.querySelectorAll(e)].filter(o=>o instanceof n)}function rt(t,e,n,o=0){
if(t.measureText(e).width<=n)return e;for(let r=Math.min(e.length-1,Math.floor(n/3));r>2;r--){let s=Math.floor(r*o),a=`${e.slice(0,r-s)}\u2026${e.slice(e.length-
s)}`;if(t.measureText(a).width<=n)return a}return""}function Ao(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var Ei=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]],Oi=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"K\
iB"]];function x(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${x(-t)}`;if(t>=1195e8){let e=Math.round(t/1e9);return`${Math.floor(e/60)} min ${e%60} \
s`}for(let[e,n]of Ei)if(t>=.9995*e)return`${Ao(t/e)} ${n}`;return t>=.9995||t===0?`${t.toFixed(0)} ns`:`${Number(t.toPrecision(2))} ns`}function M(t){if(t==null||
Number.isNaN(t))return"-";if(t<0)return`-${M(-t)}`;for(let[e,n]of Oi)if(t>=.9995*e)return`${Ao(t/e)} ${n}`;return`${t.toFixed(0)} B`}function R(t){return t==null||
Number.isNaN(t)?"-":t>0&&t<.1?"<0.1 %":t<9.95?`${t.toFixed(1)} %`:`${t.toFixed(0)} %`}function O(t){return t.toLocaleString("en-US")}function $(t,e){return`${O(
t)} ${e}${t===1?"":"s"}`}var st=class extends Error{constructor(){super("the kernel was restarted; run the cell again")}};function To(){return`${Date.now().toString(36)}-${Math.random().
toString(36).slice(2)}`}function bt(){if(matchMedia("print").matches)return"light";let{jpThemeLight:t,vscodeThemeKind:e}=document.body.dataset;if(t!==void 0)return t==="false"?"dark":"\
light";if(e!==void 0)return e.includes("light")?"light":"dark";let n=document.documentElement.dataset.theme;return n==="dark"||n==="light"?n:matchMedia("(prefer\
s-color-scheme: dark)").matches?"dark":"light"}function se(t){let e=bt(),n=()=>{let a=bt();a!==e&&(e=a,t(a))},o=new MutationObserver(n),r={attributes:!0,attributeFilter:[
"data-jp-theme-light","data-vscode-theme-kind","data-theme"]};o.observe(document.body,r),o.observe(document.documentElement,r);let s=[matchMedia("(prefers-color\
-scheme: dark)"),matchMedia("print")];for(let a of s)a.addEventListener("change",n);return()=>{o.disconnect();for(let a of s)a.removeEventListener("change",n)}}function G(t){for(;;){let{done:e,value:n}=t.next();if(e)return n}}function So(t){for(let e of t){let n=e();n&&G(n)}}async function Eo(t,e,n){for(let o of t){if(await e(),
n())return;let r=o(),s=performance.now();for(;r&&!r.next().done;)if(!(performance.now()-s<6)){if(await e(),n())return;s=performance.now()}}}function*at(t,e){for(let n=t;n<
e;n+=65536)yield[n,Math.min(n+65536,e)]}var $i=new Set(["kernel","gpu_memcpy","gpu_memset"]);function*Oo(t,e){let n=Uint8Array.from(t.header.cats,c=>+$i.has(c)),o=qe(0),[r,s,a]=[0,0,0];for(let{kind:c,
count:l}of t.header.lanes){let f=a+l,u=qe(c==="device"?l:0);for(let[d,p]of at(a,f)){if(t.start[d]>=e[1])break;c==="device"?r+=Ci(t,n,e,u,d,p):s+=_i(t,e,d,p),yield}
o=Li(o,u),a=f}let i=0;for(let c=0;c<o.num;c++)i+=o.to[c]-o.from[c];return{busy:i,idle:e[1]-e[0]-i,work:r,calls:s}}function _i({start:t,dur:e},[n,o],r,s){let a=0;
for(let i=r;i<s&&t[i]<o;i++)a+=+(t[i]+e[i]>n);return a}function Ci({start:t,dur:e,cat:n},o,[r,s],a,i,c){let l=0;for(let f=i;f<c&&t[f]<s;f++){let u=t[f]+e[f];u<=
r||!o[n[f]]||(l+=1,Ye(a,Math.max(t[f],r),Math.min(u,s)))}return l}function qe(t){return{num:0,from:new Float64Array(t),to:new Float64Array(t)}}function Ye(t,e,n){
let o=t.num-1;if(o>=0&&e<=t.to[o]){n>t.to[o]&&(t.to[o]=n);return}t.from[t.num]=e,t.to[t.num]=n,t.num+=1}function Li(t,e){if(!t.num||!e.num)return t.num?t:e;let n=qe(
t.num+e.num);for(let o=0,r=0;o<t.num||r<e.num;)r>=e.num||o<t.num&&t.from[o]<=e.from[r]?Ye(n,t.from[o],t.to[o++]):Ye(n,e.from[r],e.to[r++]);return n}function $o({
start:t,dur:e},n,o){let[r,s]=t[n]<=t[o]?[n,o]:[o,n],a=t[r]+e[r];return a<t[s]?[a,t[s]]:[t[r],Math.max(t[s],t[r]+1)]}var Ri=`
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
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`,_o=Symbol.for("cudalens.timeline.style");function Co(t){let e=t.getRootNode(),n=e instanceof ShadowRoot?e:document;if(n[_o])return;let o=new CSSStyleSheet;o.replaceSync(
Ri),n[_o]=o,n.adoptedStyleSheets=[...n.adoptedStyleSheets,o]}function Lo({style:t},e){let{bg:n,text:o,muted:r,line:s,lineSoft:a,accent:i,tip:c,field:l}=e;for(let[
f,u]of Object.entries({bg:n,text:o,muted:r,line:s,soft:a,accent:i,tip:c,field:l}))t.setProperty(`--timeline-${f}`,u);t.setProperty("--timeline-tip-text",e.tipText),
t.setProperty("color-scheme",n<"#8"?"dark":"light")}var Ii="W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, L follows a \
launch arrow. F fits, slash searches, C folds a lane, P pins it, Escape goes back.",Ni=[["wheel","zoom, after a click"],["Ctrl+wheel","zoom"],["drag","pan"],["S\
hift+drag","select time"],["W A S D","move"],["F","fit"],["/","search"],["Enter","step through events"]];function Ro(t){Co(t);let e=Pi(),n=h("canvas",{class:"cl\
tl-canvas",tabindex:"0",role:"application","aria-roledescription":"timeline","aria-label":"Timeline of the trace"}),o=h("div",{class:"cltl-stage"},n),r=h("div",
{class:"cltl-frame"},o),s=h("div",{class:"cltl-tip",hidden:!0,"aria-hidden":"true"}),a=h("div",{class:"cltl-spoken","aria-live":"polite"}),i=h("div",{class:"clt\
l-spoken",id:`cltl-${Math.random().toString(36).slice(2)}`},Ii);n.setAttribute("aria-describedby",i.id);let c=h("div",{class:"cltl-lanes",hidden:!0}),f=h("div",
{class:"cltl",role:"group","aria-label":"Stream timeline"},e.tools,c,r,Hi(),s,a,i);for(let u of f.querySelectorAll("canvas, input, button"))u.setAttribute("data\
-lm-suppress-shortcuts","true");return t.append(f),{...e,canvas:n,stage:o,frame:r,lanes:c,tip:s,spoken:a,host:f}}function Pi(){let t=(d,p,g)=>h("button",{type:"\
button","aria-label":d,title:g},p),e=(...d)=>h("span",{class:"cltl-group"},...d),n=h("input",{class:"cltl-search",type:"search",placeholder:"Search names  ( / )",
"aria-label":"Search event names",autocomplete:"off",spellcheck:"false"}),o=h("span",{class:"cltl-matches",role:"status"}),r=t("Previous match","\u2039","Previo\
us match (Shift+Enter)"),s=t("Next match","\u203A","Next match (Enter)"),a=t("Zoom in","+","Zoom in (W)"),i=t("Zoom out","\u2212","Zoom out (S)"),c=t("Fit the w\
hole trace","Fit","Show the whole trace (F)"),l=t("Lanes","Lanes","Pin, move, fold and filter lanes");l.setAttribute("aria-expanded","false");let f=h("ul",{class:"\
cltl-legend","aria-label":"Colours"}),u=h("div",{class:"cltl-tools",role:"toolbar","aria-label":"Timeline"},e(n,r,s,o),e(i,a,c,l),f);return{search:n,matches:o,previous:r,
next:s,zoomIn:a,zoomOut:i,fit:c,lanesButton:l,legend:f,tools:u}}function Hi(){let t=Ni.flatMap(([e,n])=>[h("span",{},h("kbd",{},e),` ${n}`)," "]);return h("div",
{class:"cltl-hint","aria-hidden":"true"},...t)}function Io(t,e){t.legend.replaceChildren(...e.map(([n,o])=>{let r=h("i",{"aria-hidden":"true"});return r.style.background=
o,h("li",{},r,n)}))}function No(t,e,n,o){let[r,...s]=e;t.tip.replaceChildren(h("b",{},r),...s.map(l=>h("div",{},l))),t.tip.hidden=!1;let{offsetWidth:a,offsetHeight:i}=t.
tip,c=t.host.clientWidth;t.tip.style.left=`${Math.max(0,n+14+a>c?n-a-10:n+14)}px`,t.tip.style.top=`${o+18+i>t.host.clientHeight?o-i-8:o+18}px`}var E=18,Ft=24,A=26,k=Ft+A,Ze=4,Fi=20;function yt(t,e=!1){let n=1/0,o=-1/0,r=t.header.cats.map(s=>s==="Trace"||s==="overhead");for(let s=0;s<t.n;s++){if(e&&(r[t.
cat[s]]||t.flags[s]&C.instant))continue;t.start[s]<n&&(n=t.start[s]);let a=t.start[s]+t.dur[s];a>o&&(o=a)}return n===1/0?e?yt(t):[0,1e3]:[n,Math.max(o,n+1)]}function Je([
t,e],n){let o=(n[1]-n[0])*1.04,r=Math.min(Math.max(e-t,Math.min(Fi,o)),o),s=(t+e)/2,a=n[0]-r*.9,i=n[1]-r*.1,c=r>=o?(n[0]+n[1]-o)/2:Math.min(Math.max(s-r/2,a),i);
return[c,c+r]}function ae(t){let e=(t[1]-t[0])*.02;return[t[0]-e,t[1]+e]}function Po(t,e,n,o=110){let r=(e-t)*o/Math.max(n,1),s=10**Math.floor(Math.log10(r)),a=Math.
max(1,([1,2,5,10].find(c=>c*s>=r*.999)??10)*s),i=[];for(let c=Math.ceil(t/a);c*a<=e&&i.length<200;c++)i.push({t:c*a,text:Di(c*a,a)});return{ticks:i,step:a}}var zi=[
[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]];function Di(t,e){let[n,o]=zi.find(([s])=>Math.abs(t)>=s)??[1,"ns"],r=Math.max(0,Math.ceil(Math.log10(n/e)-1e-9));return t===
0?"0":`${(t/n).toFixed(r)} ${o}`}function ie(t,e,n,o=0){let r=new Float64Array(t.length),s=new Float64Array(t.length),a=new Uint16Array(t.length),i=0;for(let c of n)
a[c]=e.has(c)?1:t[c],r[c]=i,i+=a[c]*E+2*Ze,s[c]=i;return{order:n,tops:r,ends:s,shown:a,pinned:o?s[n[o-1]]:0,total:i}}function it(t,e){let{order:n,tops:o}=t;if(e<
0||e>=t.total)return-1;let r=0,s=n.length-1;for(;r<s;){let a=r+s+1>>1;o[n[a]]<=e?r=a:s=a-1}return n[r]}function ce(t,e,n){return t.tops[e]+Ze+n*E}function Ho(t,e){
let n=it(t,e);if(n<0)return null;let o=Math.floor((e-t.tops[n]-Ze)/E);return o>=0&&o<t.shown[n]?{lane:n,row:o}:null}var Ui=.6;function le({size:t,layout:e}){return e.pinned<=Ui*(t.height-k)?e.pinned:0}function fe(t,e){return e-k<le(t)?e-k:e-k+t.scroll}function tt(t){let{size:e,
view:n,layout:o}=t,r=e.width-e.gutter,s=Math.max(1,Math.round(r*e.ratio)),a=(n[1]-n[0])/s,i=Math.round(n[0]/a)*a,c=s/e.ratio/(n[1]-n[0]),l=le(t),f=p=>e.gutter+(p-
i)*c,u=(p,g)=>k+g-(o.tops[p]<l?0:t.scroll),d=(p,g)=>u(p,ce(o,p,g));return{width:r,pixels:s,w:a,t0:i,t1:i+s*a,scale:c,parts:Bi(t,l),x:f,y:d,down:u}}function Bi({
layout:t,size:e,scroll:n},o){let{order:r,tops:s}=t,a=Math.min(n,Math.max(0,t.total-1))+o,i=n+e.height-k,c=Math.max(0,r.indexOf(it(t,a))),l=it(t,i),u={lanes:r.slice(
c,l<0?r.length:r.indexOf(l)+1).filter(p=>s[p]>=o),top:k+o,bottom:e.height};if(!o)return[u];let d={lanes:r.filter(p=>s[p]<o),top:k,bottom:k+o};return[u,d]}function xt(t,e,n){
let o=t.data.lane[n],r=t.rows.row[n];return r>=t.layout.shown[o]?null:{x:e.x(t.data.start[n]),y:Math.round(e.y(o,r)),width:Math.max(1,t.data.dur[n]*e.scale)}}var Fo={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#\
d55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_\
runtime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var D=Fo;function ue(t,e){let{groups:n}=D,o=n.findIndex(s=>s.cats.includes(t));return o<0?n.length-1:n[o].key==="kernel"&&D.comm_prefixes.some(s=>e.startsWith(s))?
n.findIndex(s=>s.key==="comm"):o}function Mt(t){let e=2166136261;for(let n=0;n<t.length;n++)e=Math.imul(e^t.charCodeAt(n),16777619);return e>>>0}function vt(t){
let[e,n,o]=[1,3,5].map(r=>Number.parseInt(t.slice(r,r+2),16));return[e,n,o]}function Gi(t,e,n){let o=vt(e),[r,s,a]=vt(t).map((i,c)=>Math.floor(i+(o[c]-i)*n+.5));
return[r,s,a]}function Ki(t){let[e,n,o]=t.map(r=>r/255).map(r=>r<=.04045?r/12.92:((r+.055)/1.055)**2.4);return .2126*e+.7152*n+.0722*o}var K=D.light.shades.length;
function zt(t){let e=D[t].shades,n=D.groups.flatMap(o=>e.map(([r,s])=>Gi(o.color,r,s)));return{pixels:Uint32Array.from(n,([o,r,s])=>(s<<16|r<<8|o)>>>0),css:n.map(
o=>`rgb(${o.join(",")})`),ink:n.map(o=>(Ki(o)+.05)**2>.05*1.05?"#000000":"#ffffff")}}var j=16,de=512,Dt=65535,ji=.02,zo=88,Xi=255<<24>>>0,Vi=150<<24>>>0;function Uo(t){let{start:e,dur:n,n:o,header:r}=t,s=new Uint16Array(o),a=[],i=new Float64Array(
de),c=new Int32Array(de),l=new Map,f=0;for(let u of r.lanes){let d=-1,p=0;i.fill(-1/0);let g=f+u.enclosing;for(let m=f+u.count;f<m;f++){if(f<g&&f>g-u.enclosing){
s[f]=Dt;continue}let w=e[f],y=w+n[f];for(;d>=0&&i[d]<=w;)d--;let b=d;for(;b>=0&&!(i[b]>w&&i[b]>=y);)b--;for(b++;b<de&&i[b]>w;){if(e[c[b]]<w&&i[b]-w<ji*(y-w)){l.
set(c[b],w);break}b++}if(b>=de){s[f]=Dt;continue}s[f]=b,i[b]=y,c[b]=f,y>w&&b>d&&(d=b),b>=p&&(p=b+1)}a.push(Math.max(p,1))}return{row:s,heights:a,ends:l}}function he(t,e,n){
let o=n;for(;e.row[o]===Dt&&o>0&&t.lane[o-1]===t.lane[n];)o--;return e.row[n]===Dt&&e.row[o]===0?o:n}function Bo(t){let{names:e,cats:n}=t.header,o=new Map,r=new Uint8Array(
t.n),s=new Int8Array(e.length).fill(-1),a=-1,i=0;for(let c=0;c<t.n;c++){let l=t.name[c]*65536+t.cat[c];if(l!==a){let f=o.get(l);if(f===void 0){let u=e[t.name[c]];
s[t.name[c]]<0&&(s[t.name[c]]=Mt(u)%K),f=ue(n[t.cat[c]],u)*K+s[t.name[c]],o.set(l,f)}a=l,i=f}r[c]=i}return r}function pe(t,e,n,o=null){let{start:r,dur:s,lane:a,
n:i}=t,c=m=>e.row[m]===Dt||o!==null&&!o[m],l=Do(e.heights),f=new Uint32Array(l[e.heights.length]);for(let m=0;m<i;m++)c(m)||f[l[a[m]]+e.row[m]]++;let u=Do(f),d=u[u.
length-1],p={first:u,laneRow:l,at:new Uint32Array(d),s:new Float64Array(d),e:new Float64Array(d),sum:new Float64Array(d+1),tone:new Uint8Array(d)},g=u.slice();for(let m=0;m<
i;m++){if(c(m))continue;let w=g[l[a[m]]+e.row[m]]++;p.at[w]=m,p.s[w]=r[m],p.e[w]=r[m]+s[m],p.tone[w]=n[m]}for(let[m,w]of e.ends)c(m)||(p.e[qi(p,l[a[m]]+e.row[m],
m)]=w);for(let m=0;m<d;m++)p.sum[m+1]=p.sum[m]+p.e[m]-p.s[m];return{...p,maxima:Yi(p.s,p.e)}}function qi({first:t,at:e},n,o){let r=t[n],s=t[n+1];for(;r<s;){let a=r+
s>>1;e[a]<o?r=a+1:s=a}return r}function Do(t){let e=new Uint32Array(t.length+1);for(let n=0;n<t.length;n++)e[n+1]=e[n]+t[n];return e}function Yi(t,e){let n=[],o=null;
for(let r=t.length;r>j;){let s=Math.ceil(r/j),a=new Uint32Array(s);for(let i=0;i<s;i++){let c=-1,l=-1;for(let f=i*j;f<Math.min(r,(i+1)*j);f++){let u=o===null?f:
o[f];e[u]-t[u]>l&&(l=e[u]-t[u],c=u)}a[i]=c}n.push(a),o=a,r=s}return n}function Wo(t,e,n){let{s:o,e:r,maxima:s}=t,a=e,i=r[e]-o[e],c=u=>{let d=r[u]-o[u];(d>i||d===
i&&u<a)&&(i=d,a=u)},l=e,f=n;for(let u=-1;l<f;u++){let d=u<0?null:s[u],p=u+1>=s.length||f-l<=j;for(;l<f&&(p||l%j);)c(d===null?l++:d[l++]);for(;f>l&&f%j;)c(d===null?
--f:d[--f]);l/=j,f/=j}return a}function me(t,e,n,o){let r=1,s=e;for(;s+r<n&&t[s+r]<o;)s+=r,r*=2;let a=Math.min(n,s+r);for(;s<a;){let i=s+a>>1;t[i]<o?s=i+1:a=i}return s}
function X(t,e,n){let o=t.first[e],r=me(t.s,o,t.first[e+1],n);return r>o&&t.e[r-1]>n?r-1:r}function Go(t,e,{t0:n,w:o,out:r,base:s,width:a,minWidth:i},c,l){let{s:f,
e:u,sum:d,tone:p}=t,g=t.first[e+1],m=1/o,w=n+a*o,y=X(t,e,n),b=0;for(;y<g&&f[y]<w&&b<a;){let v=(f[y]-n)*m;v>b&&(b=Math.floor(v));let I=n+b*o;if(u[y]<=I&&f[y]<I){
y++;continue}if(f[y]<=I&&u[y]>=I+o){let ee=(u[y]-n)*m,ne=Math.min(a,Math.max(b+1,Math.floor(ee)));r.fill((c[p[y]]|Xi)>>>0,s+b,s+ne),ee-v>=i&&l(y,v,ee),ee-v>=4&&
ne<a&&(r[s+ne-1]=(c[p[y]]|Vi)>>>0),b=ne,u[y]<=n+b*o&&y++;continue}let L=I+o,P=me(f,y,g,L);if(P===y){b++;continue}let wt=Math.max(0,I-f[y])+Math.max(0,u[P-1]-L),
Ht=(d[P]-d[y]-wt)*m,ui=P-y===1?y:Wo(t,y,P),di=zo+(255-zo)*(Ht>1?1:Ht);r[s+b]=(c[p[ui]]|Math.round(di)<<24)>>>0,b++,y=u[P-1]>L?P-1:P}}function Ko(t,e,[n,o],r){let{
s,e:a,sum:i}=t,c=(o-n)/r.length,l=t.first[e+1],f=X(t,e,n);for(let u=0;u<r.length&&f<l;u++){let d=n+u*c,p=me(s,f,l,d+c);if(p===f&&!(s[f]<d+c))continue;let g=Math.
max(0,d-s[f])+Math.max(0,a[p-1]-d-c);r[u]+=Math.max(0,i[p]-i[f]-g)/c,f=p>f&&a[p-1]>d+c?p-1:p}}function ge(t,e,n,o){let{s:r,e:s,first:a}=t,i=X(t,e,n);if(i<a[e+1]&&
r[i]<=n&&s[i]>n&&s[i]-r[i]>=2*o)return t.at[i];let c=X(t,e,n-o),l=me(r,c,a[e+1],n+o),f=l<a[e+1]&&r[l]<=n+o?l+1:l;return c<f?t.at[Wo(t,c,f)]:-1}var Xo=["device","host"],Zi=400;function Ji(t,e){let n={device:new Float32Array(e),host:new Float32Array(e)},o={device:0,host:0};t.data.header.lanes.forEach((r,s)=>{
for(let a=t.index.laneRow[s];a<Math.min(t.index.laneRow[s+1],Zi);a++)Ko(t.index,a,t.whole,n[r.kind])});for(let r of Xo){for(let s of n[r])s>o[r]&&(o[r]=s);if(o[r]>
0)for(let s=0;s<e;s++)n[r][s]/=o[r]}return{shares:n,most:o}}function Qi(t,e){let n=document.createElement("canvas"),o=Math.max(1,Math.round(e*t.size.ratio));n.width=
o,n.height=Math.round((A-6)*t.size.ratio);let r=N(n),{shares:s,most:a}=Ji(t,o),i=Xo.filter(l=>a[l]>0),c=n.height/Math.max(i.length,1);return i.forEach((l,f)=>{r.
fillStyle=t.tones.css[l==="device"?0:t.hostTone];for(let u=0;u<o;u++){let d=s[l][u]*(c-1);d>0&&r.fillRect(u,(f+1)*c-Math.max(1,d),1,Math.max(1,d))}}),n}function jo(t,e){
let{gutter:n,width:o}=t.size;return n+(e-t.whole[0])/(t.whole[1]-t.whole[0])*(o-n)}function Qe(t,e){let{gutter:n,width:o}=t.size;return t.whole[0]+(e-n)/(o-n)*(t.
whole[1]-t.whole[0])}function Vo(t,e,{width:n,t0:o,t1:r}){let{gutter:s,ratio:a}=e.size,i=`${n} ${a} ${e.mode}`;e.overview?.key!==i&&(e.overview={key:i,picture:Qi(
e,n)}),t.fillStyle=e.colors.gutter,t.fillRect(s,0,n,A),t.drawImage(e.overview.picture,s,3,n,A-6);let c=Math.max(s,jo(e,o)),l=Math.min(s+n,jo(e,r));t.fillStyle=e.
colors.bg,t.globalAlpha=.65,t.fillRect(s,0,c-s,A),t.fillRect(l,0,s+n-l,A),t.globalAlpha=1,t.strokeStyle=e.colors.muted,t.lineWidth=1;let f=Math.max(3,l-c);t.strokeRect(
Math.min(c,s+n-f)+.5,.5,f-1,A-1)}var tn=80;function Yo(t){let e=new Uint32Array(t.n+1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&e[t.launch[r]+1]++;for(let r=0;r<t.n;r++)e[r+1]+=e[r];let n=new Uint32Array(
e[t.n]),o=e.slice(0,-1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&(n[o[t.launch[r]]++]=r);return{first:e,work:n}}function en(t,e,n=tn){if(t.data.launch[e]>=0)return[
e];let{first:o,work:r}=t.launches;return[...r.subarray(o[e],Math.min(o[e+1],o[e]+n))]}function Zo(t,e,n){let o=new Set;for(let r of[e.hover,e.focused,e.selected])
if(r!==null)for(let s of en(e,r))o.add(s);t.globalAlpha=.45;for(let r of tc(e,n)){let s=e.data.start[e.data.launch[r]];!o.has(r)&&s>=n.t0&&s<=n.t1&&qo(t,e,n,r,1)}
t.globalAlpha=1;for(let r of o)qo(t,e,n,r,1.8)}function tc(t,e){let{index:n,data:o}=t,r=[],s=0;for(let a of e.parts.flatMap(({lanes:i})=>i))if(o.header.lanes[a].
kind==="device")for(let i=0;i<t.layout.shown[a];i++){let c=n.laneRow[a]+i;for(let l=X(n,c,e.t0);l<n.first[c+1]&&n.s[l]<e.t1;l++){if(s++>4*tn)return[];if(o.launch[n.
at[l]]>=0&&r.push(n.at[l])>tn)return[]}}return r}function qo(t,e,n,o,r){let s=xt(e,n,e.data.launch[o])??ec(e,n,e.data.launch[o]),a=xt(e,n,o);if(s===null||a===null)
return;let i=a.y>s.y,c=s.x+Math.min(s.width/2,12),l=s.y+(i?E-1:0),f=a.y+(i?0:E-1),u=Math.min(60,Math.abs(f-l)/2+8)*(i?1:-1);t.strokeStyle=e.colors.arrow,t.fillStyle=
e.colors.arrow,t.lineWidth=r,t.beginPath(),t.moveTo(c,l),t.bezierCurveTo(c,l+u,a.x,f-u,a.x,f),t.stroke();let d=i?-6:6;t.beginPath(),t.moveTo(a.x,f),t.lineTo(a.x-
3.5,f+d),t.lineTo(a.x+3.5,f+d),t.fill()}function ec(t,e,n){let o=n;for(;o>=0&&t.rows.row[o]>=t.layout.shown[t.data.lane[o]];)o=t.data.parent[o];let r=o<0?null:xt(
t,e,o);return r&&{x:e.x(t.data.start[n]),y:r.y,width:1}}function Jo(t,e){let n=document.createElement("canvas");return{canvas:t,context:N(t,{alpha:!1}),stripCanvas:n,stripContext:N(n),strip:null,labels:new Array(e.header.
names.length)}}function Qo(t,e,n){let{stripCanvas:o,stripContext:r}=t;if(t.strip===null||o.width<e||o.height<n){o.width=e,o.height=Math.max(n,o.height);let s=r.
createImageData(e,o.height);t.strip={image:s,pixels:new Uint32Array(s.data.buffer)}}return t.strip}var nn="#e5484d";function tr(t){let e=[0];for(let n of t.header.lanes)e.push(e[e.length-1]+n.count);return(t.header.races??[]).map(n=>({...n,event:nc(t,n,e)}))}
function nc(t,{lane:e,at:n,dur:o},r){if(e<0)return-1;for(let s=r[e];s<r[e+1];s++)if(t.start[s]===n&&t.dur[s]===o)return s;return-1}function er(t,e,{x:n,t0:o,t1:r}){
t.fillStyle=nn;for(let{at:s}of e.races){if(s<o||s>r)continue;let a=Math.round(n(s));t.fillRect(a,k-14,1.5,14),t.beginPath(),t.moveTo(a,k-14),t.lineTo(a+9,k-10.5),
t.lineTo(a,k-7),t.fill()}}var on="#d55e00",nr=8;function or(t){let e=t.header.syncs??[];if(!e.length)return[];let n=[0];for(let r of t.header.lanes)n.push(n[n.length-1]+r.count);let o=new Map(
e.map(r=>[`${r.lane} ${r.at} ${r.dur}`,-1]));for(let r of new Set(e.map(s=>s.lane)))for(let s=n[r];s<n[r+1];s++){let a=`${r} ${t.start[s]} ${t.dur[s]}`;o.has(a)&&
o.set(a,s)}return e.map(r=>({...r,event:o.get(`${r.lane} ${r.at} ${r.dur}`)??-1}))}function rr(t,e,{x:n,t0:o,t1:r}){t.fillStyle=on;for(let{at:s,dur:a}of e.syncs){
if(s+a<o||s>r)continue;let i=Math.round(n(s));t.fillRect(i,k-nr/2,Math.max(1.5,n(s+a)-i),nr/2)}}var oc=4e3;function sr(t,e,n){let o=Uo(e),r=Bo(e),s=ae(yt(e,!0)),a=pe(e,o,r),i=Ro(t),c=new Set(e.header.lanes.flatMap((f,u)=>f.is_idle?[u]:[])),l=e.header.lanes.
map((f,u)=>u);return{data:e,options:n,dom:i,painter:Jo(i.canvas,e),rows:o,tone:r,hostTone:rc(e,a),whole:s,extent:yt(e),view:[...s],index:a,launches:Yo(e),collapsed:c,
order:l,pinned:new Set,filters:new Map,lanesPanel:null,layout:ie(o.heights,c,l),steps:sc(e),races:tr(e),syncs:or(e),marks:[],chosen:null,names:null,search:null,
range:null,selected:null,focused:null,hover:null,hasFocus:!1,focusLane:-1,isArmed:!1,drag:null,held:new Set,pointerX:null,scroll:0,size:{width:0,height:0,gutter:150,
ratio:1},...rn(n.theme??"light"),overview:null,lowerNames:null,script:[],pending:0,beforeFrame:null,isGone:!1,isReleased:!1,cleanups:[]}}function rn(t){let e=D[t],
n=zt(t),o=Number.parseInt(e.dim.slice(1),16),r=((o&255)<<16|o&65280|o>>16)>>>0;return{mode:t,colors:e,tones:n,dimPixels:new Uint32Array(n.pixels.length).fill(r)}}
function T(t,e,n,o,r){e.addEventListener(n,o,r),t.cleanups.push(()=>e.removeEventListener(n,o,r))}function rc({header:t},{first:e,laneRow:n,tone:o}){let r=t.lanes.
findIndex(({kind:s,count:a})=>s==="host"&&a>0);return r<0?0:o[e[n[r]]]}function sc(t){let e=new Set(t.header.step_names),n=[];if(!e.size)return n;for(let o=0;o<
t.n;o++)e.has(t.name[o])&&t.header.lanes[t.lane[o]].kind==="host"&&n.push({t0:t.start[o],t1:t.start[o]+t.dur[o]});return n.length>oc?[]:n.sort((o,r)=>o.t0-r.t0)}var ac=4,ic={gutter:"pointer",ruler:"col-resize",overview:"ew-resize"};function cc(t,e){let n=t.getBoundingClientRect();return[e.clientX-n.left,e.clientY-n.top]}
function we(t,e,n){return e<t.size.gutter?n<k?"corner":"gutter":n<A?"overview":n<k?"ruler":"plot"}function ir(t,e){let{canvas:n}=t.dom,o=r=>cc(n,r);T(t,n,"point\
erdown",r=>{if(r.button!==0)return;let[s,a]=o(r),i=we(t,s,a);t.isArmed=!0,n.focus({preventScroll:!0}),n.setPointerCapture(r.pointerId);let c=i==="ruler"||i==="p\
lot"&&r.shiftKey?"range":i;t.drag={kind:c,x:s,y:a,view:[...t.view],scroll:t.scroll,moved:!1,from:e.timeAt(s)},c==="overview"&&e.centre(Qe(t,s))}),T(t,n,"pointer\
move",r=>{let[s,a]=o(r);if(t.drag===null){let i=we(t,s,a);n.style.cursor=ic[i]??"default",i==="plot"?e.hover(s,a):e.leave()}else lc(t,e,s,a)}),T(t,n,"pointerup",
r=>{let[s,a]=o(r),{drag:i}=t;t.drag=null,n.style.cursor="default",i!==null&&(i.kind==="range"&&i.moved?e.finishRange():i.kind==="gutter"?i.moved?e.dropLane(i.y,
a):e.toggleLane(a):!i.moved&&i.kind==="range"&&!e.measureTo(s,a)?e.clearRange():!i.moved&&i.kind==="plot"&&e.click(s,a))}),T(t,n,"pointercancel",()=>{t.drag=null}),
T(t,n,"pointerleave",()=>{t.isArmed=t.drag!==null,e.leave()}),T(t,n,"dblclick",r=>{let[s,a]=o(r);we(t,s,a)==="plot"?e.zoomToEventAt(s,a):we(t,s,a)!=="gutter"&&e.
fit()}),T(t,n,"wheel",r=>fc(t,e,r,o(r)),{passive:!1})}function lc(t,e,n,o){let{drag:r}=t;if(r!==null&&!(!r.moved&&Math.hypot(n-r.x,o-r.y)<ac))if(r.moved=!0,r.kind===
"plot"){t.dom.canvas.style.cursor="grabbing";let s=(r.view[1]-r.view[0])/(t.size.width-t.size.gutter),a=(n-r.x)*s;e.show([r.view[0]-a,r.view[1]-a]),t.dom.frame.
scrollTop=r.scroll-(o-r.y)}else r.kind==="range"?e.dragRange(r.from,e.timeAt(Math.min(Math.max(n,t.size.gutter),t.size.width))):r.kind==="overview"&&e.centre(Qe(
t,n))}function fc(t,e,n,[o]){let r=n.deltaMode===1?16:n.deltaMode===2?400:1,[s,a]=[n.deltaX*r,n.deltaY*r],i=n.ctrlKey||n.metaKey;if(!i&&!t.isArmed)return;n.preventDefault();
let c=n.shiftKey&&s===0?a:s;!i&&(n.shiftKey||Math.abs(s)>Math.abs(a))?e.pan(c):e.zoom(Math.exp(Math.min(Math.max(a,-200),200)*(i&&Math.abs(a)<30?.01:.0022)),o)}
var sn={w:[1,0],s:[-1,0],a:[0,-1],d:[0,1]},ar={ArrowLeft:"left",ArrowRight:"right",ArrowUp:"up",ArrowDown:"down"};function cr(t,e){let{canvas:n,search:o}=t.dom;
T(t,n,"keydown",r=>{r.ctrlKey||r.metaKey||r.altKey||uc(t,e,r)&&(r.preventDefault(),r.stopPropagation())}),T(t,n,"keyup",r=>t.held.delete(r.key.toLowerCase())),T(
t,n,"focus",()=>e.focusChanged(!0)),T(t,n,"blur",()=>{t.held.clear(),t.isArmed=!1,e.focusChanged(!1)}),T(t,o,"input",()=>e.search(o.value)),T(t,o,"keydown",r=>{
if(r.stopPropagation(),r.key==="Enter")e.nextMatch(r.shiftKey?-1:1);else if(r.key==="Escape")o.value="",e.search(""),n.focus({preventScroll:!0});else return;r.preventDefault()})}
function uc(t,e,n){let o=n.key.length===1?n.key.toLowerCase():n.key;if(o in sn)e.hold(o);else if(o in ar)e.arrow(ar[o]);else if(o==="Enter"||o===" ")e.enter();else if(o===
"f")e.fit();else if(o==="z")e.zoomToFocused();else if(o==="l")e.follow();else if(o==="c")e.toggleFocusLane();else if(o==="p")e.pinFocusLane();else if(o==="/")t.
dom.search.select();else if(o==="n")e.nextMatch(n.shiftKey?-1:1);else if(o==="+"||o==="=")e.zoom(.7,null);else if(o==="-")e.zoom(1/.7,null);else if(o==="Home"||
o==="End")e.toEnd(o==="End");else if(o==="PageUp"||o==="PageDown")t.dom.frame.scrollBy(0,(o==="PageUp"?-.8:.8)*t.size.height);else return o==="Escape"?e.escape():
!1;return!0}function an(t){let e=[0,0];for(let n of t)e[0]+=sn[n][0],e[1]+=sn[n][1];return e}var dc=.25;function lr(t,e,n){let{x:o,t0:r,t1:s,width:a}=n,{gutter:i}=e.size,{ticks:c}=Po(r,s,a);t.fillStyle=e.colors.line,t.fillRect(i,k-1,a,1),t.textAlign="le\
ft";for(let{t:f,text:u}of c){let d=Math.round(o(f));t.fillStyle=e.colors.line,t.fillRect(d,k-8,1,8),t.fillStyle=e.colors.muted,d+60<e.size.width&&t.fillText(u,d+
4,A+Ft/2)}let{range:l}=e;l!==null&&l[1]>r&&l[0]<s&&hc(t,e,l,n)}function hc(t,e,n,{x:o,width:r}){let{gutter:s}=e.size,a=x(n[1]-n[0]),i=t.measureText(a).width+12,
c=(o(n[0])+o(n[1]))/2,l=Math.min(Math.max(c-i/2,s),s+r-i);t.fillStyle=e.colors.tip,t.fillRect(l,A+3,i,Ft-6),t.fillStyle=e.colors.tipText,t.fillText(a,l+6,A+Ft/2)}
function fr(t,e,n){let{gutter:o,height:r}=e.size;t.fillStyle=e.colors.gutter,t.fillRect(0,0,o,r),t.textAlign="left";for(let s of n.parts){t.save(),t.beginPath(),
t.rect(0,s.top,o-1,s.bottom-s.top),t.clip(),cn(t,e,n,s,0);for(let a of s.lanes)pc(t,e,n,s,a);t.restore()}t.fillStyle=e.colors.line,t.fillRect(o-1,0,1,r),t.fillRect(
0,k-1,o,1);for(let{bottom:s}of n.parts.slice(1))t.fillRect(0,s-2,e.size.width,2)}function pc(t,e,n,o,r){let{layout:s,colors:a,size:i}=e,c=e.rows.heights[r]>1,l=E/
2+4,f=n.down(r,s.tops[r])+l,u=n.down(r,s.ends[r])-l,d=Math.round(Math.min(Math.max(f,o.top+l),u));t.fillStyle=a.muted,c&&wc(t,12,d,e.collapsed.has(r)),t.fillStyle=
r===e.focusLane&&e.hasFocus?a.accent:a.text,t.fillText(mc(t,gc(e,r),i.gutter-32),22,d)}function mc(t,e,n){return t.measureText(e).width<=n?e:rt(t,e.replace(/^(thread \S+) \([^()]*\)/,
"$1"),n,dc)}function gc({data:t,filters:e},n){let{label:o}=t.header.lanes[n];return e.has(n)?`${o} (${e.get(n)?.text})`:o}function wc(t,e,n,o){let r=o?[[-2.5,-4],
[3,0],[-2.5,4]]:[[-4,-2.5],[4,-2.5],[0,3]];t.beginPath();for(let[s,a]of r)t.lineTo(e+s,n+a);t.fill()}function cn(t,e,{down:n},{lanes:o},r){t.fillStyle=e.colors.
lineSoft;for(let s of o)t.fillRect(r,Math.round(n(s,e.layout.ends[s]))-1,e.size.width-r,1)}var bc=5,ur=24;function dr(t,e,{x:n,t0:o,t1:r}){let{gutter:s,width:a,height:i}=e.size;t.fillStyle=e.colors.accent,t.textAlign="left";for(let{at:c,dur:l,note:f}of e.
marks){if(c+l<o||c>r)continue;let u=Math.max(s,Math.round(n(c))),d=Math.min(a,Math.max(u+2,n(c+l)));t.fillRect(u,A,d-u,bc),t.globalAlpha=.5,c>=o&&t.fillRect(u,A,
1,i-A),t.globalAlpha=1;let p=f.length>ur?`${f.slice(0,ur)}\u2026`:f;if(!p)continue;let g=t.measureText(p).width+8,m=Math.min(u,a-g);t.fillRect(m,A,g,k-A-9),t.fillStyle=
e.colors.bg,t.fillText(p,m+4,A+(k-A-9)/2+.5),t.fillStyle=e.colors.accent}}function hr({data:t,races:e},n){let{names:o,cats:r,lanes:s}=t.header,i=s[t.lane[n]].kind==="host"&&t.self[n]!==t.dur[n]?`, self ${x(t.self[n])}`:"",c=[o[t.name[n]].
slice(0,400)||"(no name)"],l=ln(t,n),f=t.name[n+s[t.lane[n]].enclosing-1];l&&c.push(`${l}, the innermost: ${o[f].slice(0,200)}`),c.push(t.flags[n]&C.instant?"in\
stant":`${x(t.dur[n])}${i}`),c.push(`${r[t.cat[n]]||"no category"} \xB7 at ${xc(t.start[n])}`);let u=t.launch[n];if(u>=0){let p=o[t.name[u]].slice(0,100);c.push(
`launched by ${p}, ${x(t.start[n]-t.start[u])} earlier`)}let d=e.find(({event:p})=>p===n);return d&&c.push(`race: ${d.title}`),c}function ln(t,e){let{enclosing:n}=t.
header.lanes[t.lane[e]],o=e===0||t.lane[e-1]!==t.lane[e];return n>1&&o?`${n} enclosing frames`:void 0}function be(t,e){let{names:n,cats:o,lanes:r}=t.header,s=[n[t.
name[e]].slice(0,200)||"no name",o[t.cat[e]]||"no category"];return s.push(t.flags[e]&C.instant?"an instant":`lasts ${x(t.dur[e])}`),s.push(`starts at ${x(t.start[e])}`,
`on ${r[t.lane[e]].label}`),t.launch[e]>=0&&s.push(`launched by ${n[t.name[t.launch[e]]].slice(0,100)}`),s.join(", ")}function pr(t){return t.slice(0,300).replace(
/^void /,"").replaceAll("(anonymous namespace)::","").replaceAll("at::native::","")||t.slice(0,300)}function mr(t){return t.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
"")||t}var yc=[[1e9,"s",9],[1e6,"ms",6],[1e3,"\xB5s",3]];function xc(t){let[e,n,o]=yc.find(([r])=>Math.abs(t)>=r)??[1,"ns",0];return`${(t/e).toFixed(o)} ${n}`}var vc='11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',Mc=28;function gr(t){let{painter:e,size:n,colors:o}=t,r=e.context;
r.setTransform(n.ratio,0,0,n.ratio,0,0),r.font=vc,r.textBaseline="middle",r.fillStyle=o.bg,r.fillRect(0,0,n.width,n.height);let s=tt(t);for(let a of s.parts)kc(
r,t,s,a);Rc(r,t,s),lr(r,t,s),dr(r,t,s),rr(r,t,s),er(r,t,s),Vo(r,t,s),fr(r,t,s)}function kc(t,e,n,o){let{gutter:r}=e.size;t.save(),t.beginPath(),t.rect(r,o.top,n.
width,o.bottom-o.top),t.clip(),Ac(t,e,n),cn(t,e,n,o,r),Tc(t,e,n,o),Lc(t,e,n),Zo(t,e,n),t.restore()}function Ac(t,e,{x:n,t0:o,t1:r}){t.fillStyle=e.colors.band,t.
globalAlpha=e.colors.bandAlpha,e.steps.forEach((s,a)=>{a%2===0&&s.t1>o&&s.t0<r&&t.fillRect(n(s.t0),k,Math.max(1,n(s.t1)-n(s.t0)),e.size.height)}),t.globalAlpha=
1}function Tc(t,e,n,o){let{painter:r,size:s}=e,a=Sc(e,n,o);if(!a.length)return;let{pixels:i}=n,{image:c,pixels:l}=Qo(r,i,a.length);l.fill(0,0,c.width*a.length);
let f=a.flatMap(({lane:p,row:g},m)=>Ec(e,n,p,g,l,m*c.width));r.stripContext.putImageData(c,0,0,0,0,i,a.length),t.imageSmoothingEnabled=!1;let[u,d]=[s.gutter,i/s.
ratio];a.forEach(({lane:p,row:g},m)=>{let w=Math.round(n.y(p,g));t.drawImage(r.stripCanvas,0,m,i,1,u,w,d,E-1)}),Oc(t,e,n,f)}function Sc(t,{y:e},{lanes:n,top:o,bottom:r}){
let s=[];for(let a of n)for(let i=0;i<t.layout.shown[a];i++){let c=e(a,i);c>o-E&&c<r&&s.push({lane:a,row:i})}return s}function Ec(t,e,n,o,r,s){let{index:a,chosen:i,
tones:c}=t,l=Mc*t.size.ratio,f=e.y(n,o),u={t0:e.t0,w:e.w,width:e.pixels,out:r,base:s,minWidth:l},d=[],p=(g,m,w)=>Go(g,a.laneRow[n]+o,u,m,(y,b,v)=>{w?.[g.at[y]]||
d.push({i:g.at[y],tone:g.tone[y],x0:b,x1:v,y:f,isDim:w!==null})});return i===null?p(a,c.pixels,null):(p(a,t.dimPixels,i.keep),p(i.index,c.pixels,null)),d}function Oc(t,e,n,o){
let{ratio:r,gutter:s}=e.size;t.textAlign="left";for(let{i:a,tone:i,x0:c,x1:l,y:f,isDim:u}of o){let d=Math.max(0,c)/r,p=Math.min(n.width,l/r)-d-8,g=ln(e.data,a)??
$c(t,e,e.data.name[a],p);g&&(t.fillStyle=u?e.colors.muted:e.tones.ink[i],t.fillText(g,Math.round(s+d+4),Math.round(f)+E/2))}}function $c(t,e,n,o){let{labels:r}=e.
painter,s=r[n]??Cc(t,e.data.header,n);if(r[n]=s,s.width<=o)return s.text;if(s.shortWidth<=o)return s.short;let a=Math.floor(s.short.length*o/s.shortWidth);for(;a>=
2&&_c(t,s,a)>o;)a--;return a<2?"":`${s.short.slice(0,a)}\u2026`}function _c(t,e,n){return e.cuts[n]??=t.measureText(`${e.short.slice(0,n)}\u2026`).width,e.cuts[n]}
function Cc(t,e,n){let o=e.short[n],r=o??pr(e.names[n]),s=o??mr(r);return{text:r,short:s,cuts:[],width:t.measureText(r).width,shortWidth:t.measureText(s).width}}
function Lc(t,e,n){for(let{event:o}of e.syncs)o>=0&&Ut(t,e,n,o,on,1.5);for(let{event:o}of e.races)o>=0&&Ut(t,e,n,o,nn,2.5);e.hover!==null&&e.hover!==e.selected&&
Ut(t,e,n,e.hover,e.colors.text,1),e.selected!==null&&Ut(t,e,n,e.selected,e.colors.accent,2.5),e.focused!==null&&e.focused!==e.selected&&e.hasFocus&&Ut(t,e,n,e.focused,
e.colors.text,2,[4,2])}function Ut(t,e,n,o,r,s,a=[]){let i=xt(e,n,o);if(i===null)return;t.strokeStyle=r,t.lineWidth=s,t.setLineDash(a);let c=Math.max(i.x,e.size.
gutter-4);t.strokeRect(c,i.y,Math.max(2,Math.min(i.x+i.width,e.size.width+4)-c),E-1),t.setLineDash([])}function Rc(t,e,{x:n,width:o}){if(e.range===null)return;let{
gutter:r,height:s}=e.size,a=l=>Math.min(Math.max(l,r),r+o),[i,c]=e.range.map(l=>a(n(l)));c<=r||i>=r+o||(t.fillStyle=e.colors.accent,t.globalAlpha=e.colors.rangeAlpha,
t.fillRect(i,A,c-i,s-A),t.globalAlpha=1,i>r&&t.fillRect(i-.5,A,1,s),c<r+o&&t.fillRect(c-.5,A,1,s))}function wr(t){let e=new Uint8Array(D.groups.length);for(let n of t.
index.tone)e[n/K|0]=1;return D.groups.flatMap((n,o)=>e[o]?[[n.label,t.tones.css[o*K]]]:[])}var br=2e3;function At(t){if(t.isReleased)return;let{frame:e,stage:n,canvas:o}=t.dom,r=Math.max(1,e.clientWidth),s=Math.max(k+E,e.clientHeight),a=window.devicePixelRatio||
1;n.style.height=`${Math.max(s,Math.ceil(t.layout.total+k))}px`;let{size:i}=t;i.width!==r||i.height!==s||i.ratio!==a?(t.size={width:r,height:s,ratio:a,gutter:Math.
round(Math.min(188,Math.max(132,r*.2),r*.35))},o.width=Math.round(r*a),o.height=Math.round(s*a),o.style.width=`${r}px`,o.style.height=`${s}px`,ye(t)):S(t)}function xr(t,e){
if(t.isReleased!==e)return;if(t.isReleased=!e,e){t.size={...t.size,width:0},At(t);return}let{canvas:n}=t.dom;for(let o of[n,t.painter.stripCanvas])o.width=o.height=
0;t.painter.strip=null,t.overview=null}function ye(t){if(t.isReleased)return;let e=performance.now();t.scroll=t.dom.frame.scrollTop,gr(t),t.script.push(performance.
now()-e),t.script.length>br&&t.script.splice(0,br/2)}function S(t){t.pending||t.isGone||(t.pending=requestAnimationFrame(e=>{t.pending=0,!t.isGone&&(t.beforeFrame?.(
e),ye(t))}))}function kt(t,e){let n=Je(e,t.extent);n[0]===t.view[0]&&n[1]===t.view[1]||(t.view=n,t.options.onTime?.([...n]),S(t))}function ct(t,e){let n=Je(e,t.
extent);if(t.held.clear(),matchMedia("(prefers-reduced-motion: reduce)").matches){kt(t,n);return}let o=t.view,r=null;t.beforeFrame=s=>{r??=s;let a=Math.min(1,(s-
r)/180),i=1-(1-a)**3;kt(t,a<1?[o[0]+(n[0]-o[0])*i,o[1]+(n[1]-o[1])*i]:n),a>=1?t.beforeFrame=null:S(t)},S(t)}function Tt(t){let{data:e,names:n,search:o,filters:r}=t;
if(n===null&&o===null&&!r.size)t.chosen=null;else{let s=new Uint8Array(e.header.names.length);for(let c=0;c<s.length;c++)s[c]=+((n===null||n.has(c))&&(o===null||
o.isHit[c]));let a=new Uint8Array(e.n),i=e.header.lanes.map((c,l)=>r.get(l)?.isHit??null);for(let c=0;c<e.n;c++)a[c]=s[e.name[c]]&(i[e.lane[c]]?.[e.name[c]]??1);
t.chosen={keep:a,index:pe(e,t.rows,t.tone,a)}}S(t)}function fn(t){let{rows:e,collapsed:n,order:o,pinned:r}=t;t.layout=ie(e.heights,n,o,r.size),At(t)}function lt(t){
t.options.onSelect?.({range:t.range&&[...t.range],event:t.selected,names:t.names&&new Set(t.names)})}function ft(t,e,n=!1){let{data:o,view:r,dom:s,layout:a}=t;s.
tip.hidden=!0,t.hover=null;let i=he(o,t.rows,e),[c,l]=[o.start[i],o.start[i]+o.dur[i]],f=o.lane[i];t.rows.row[i]>=a.shown[f]&&t.collapsed.delete(f)&&fn(t);let u=ce(
t.layout,f,t.rows.row[i]),d=t.size.height-k,p=le(t),g=u<p;!g&&u<t.scroll+p?s.frame.scrollTop=u-p-8:!g&&u+E>t.scroll+d&&(s.frame.scrollTop=u+E+8-d);let m=r[1]-r[0],
w=m/(t.size.width-t.size.gutter);n?ct(t,yr(c,l,4)):l-c<3*w?ct(t,yr(c,l,30)):(l<r[0]+m*.02||c>r[1]-m*.02)&&ct(t,[(c+l-m)/2,(c+l+m)/2]),S(t)}function yr(t,e,n){let o=e>
t?(e-t)*n/2:500;return[(t+e)/2-o,(t+e)/2+o]}function Bt(t,e){e<0||(t.focused=e,t.focusLane=t.data.lane[e],t.dom.spoken.textContent=be(t.data,e),ft(t,e))}function Ic(t,e){let n=t.index.laneRow[t.data.lane[e]]+t.rows.row[e],o=X(t.index,n,t.data.start[e]);for(;o<t.index.first[n+1]&&t.index.at[o]!==e;)o++;return{r:n,
p:o}}function vr(t,e,n){let o=he(t.data,t.rows,e);if(n==="left"||n==="right"){let{r:i,p:c}=Ic(t,o),l=n==="left"?c-1:c+1;return l>=t.index.first[i]&&l<t.index.first[i+
1]?t.index.at[l]:o}let r=t.data.lane[o],s=t.rows.row[o]+(n==="up"?-1:1),a=t.data.start[o]+t.data.dur[o]/2;if(s>=0&&s<t.layout.shown[r]){let i=n==="up"?t.data.start[o]:
a,c=un(t,r,s,i,n==="up"?0:t.data.dur[o]/2);if(c>=0)return c}return Nc(t,r,n==="up"?-1:1,a)??o}function Nc(t,e,n,o){let{order:r}=t.layout;for(let s=r.indexOf(e)+
n;s>=0&&s<r.length;s+=n){let a=un(t,r[s],0,o,1/0);if(a>=0)return a}return null}function un(t,e,n,o,r){let{index:s}=t,a=s.laneRow[e]+n,i=ge(s,a,o,0);if(i>=0)return i;
let c=X(s,a,o),l=-1,f=r;for(let u of[c-1,c]){if(u<s.first[a]||u>=s.first[a+1])continue;let d=Math.max(s.s[u]-o,o-s.e[u],0);d<=f&&(l=s.at[u],f=d)}return l}function Mr(t,e){
return t.data.launch[e]>=0?t.data.launch[e]:en(t,e,1)[0]??e}function kr(t,e){let n=(t.view[0]+t.view[1])/2;for(let o of e){let r=un(t,o,0,n,1/0);if(r>=0)return r}
return-1}function Ar(t,e){if(!e.trim())return null;let n=dn(t,e),o=0;for(let r=0;r<t.data.n;r++)o+=n[t.data.name[r]];return{isHit:n,count:o,at:-1}}function dn(t,e){
let n=e.trim().toLowerCase();return t.lowerNames??=t.data.header.names.map(o=>o.toLowerCase()),Uint8Array.from(t.lowerNames,o=>+o.includes(n))}function Tr({data:t,
view:e},n,o){let r=n.at,s=(f,u)=>t.start[f]<t.start[u]||t.start[f]===t.start[u]&&f<u,a=-1,i=-1;for(let f=0;f<t.n;f++){if(!n.isHit[t.name[f]])continue;let u=o>0?
s:(p,g)=>s(g,p);(i<0||u(f,i))&&(i=f),(r>=0?u(r,f):o>0?t.start[f]>=e[0]:t.start[f]<=e[1])&&(a<0||u(f,a))&&(a=f)}let c=a>=0?a:i,l=0;if(c>=0)for(let f=0;f<t.n;f++)
l+=n.isHit[t.name[f]]&&!s(c,f)?1:0;return{found:c,ordinal:l}}function Wt(t,e){e<0||t.rows.heights[e]<2||(t.collapsed.delete(e)||t.collapsed.add(e),hn(t,e,t.collapsed.has(e)?"folded":"unfolded"))}function xe(t,e){let{order:n,
pinned:o}=t;e<0||(n.splice(n.indexOf(e),1),o.delete(e)?n.splice(o.size,0,e):(n.splice(o.size,0,e),o.add(e)),hn(t,e,o.has(e)?"pinned":"no longer pinned"))}function Gt(t,e,n){
let{order:o,pinned:r}=t;if(e<0)return;let[s,a]=r.has(e)?[0,r.size-1]:[r.size,o.length-1];o.splice(o.indexOf(e),1),o.splice(Math.min(Math.max(n,s),a),0,e),hn(t,e,
`is lane ${o.indexOf(e)+1} of ${o.length}`)}function Sr(t,e,n){n.trim()?t.filters.set(e,{text:n.trim(),isHit:dn(t,n)}):t.filters.delete(e),Tt(t)}function hn(t,e,n){
t.dom.spoken.textContent=`${t.data.header.lanes[e].label} ${n}`,fn(t),t.lanesPanel?.update()}function Kt(t,e){t.beforeFrame=null,kt(t,e)}function ve(t,e){let{size:n,view:o}=t,r=e/(n.width-n.gutter)*(o[1]-o[0]);Kt(t,[o[0]+r,o[1]+r])}function pn(t,e,n){let{
size:o,view:r}=t,s=n===null?.5:Math.min(Math.max((n-o.gutter)/(o.width-o.gutter),0),1),a=r[0]+s*(r[1]-r[0]);Kt(t,[a+(r[0]-a)*e,a+(r[1]-a)*e])}function Er(t,e){let n=(t.
view[1]-t.view[0])/2;Kt(t,[e-n,e+n])}function Or(t,e){let{extent:n,view:o}=t,r=o[1]-o[0],s=r*.02,a=e?n[1]+s-r:n[0]-s;ct(t,[a,a+r])}var Pc=3;function _r(t){return{...Hc(t),...Fc(t),...zc(t)}}function Hc(t){return{show:e=>Kt(t,e),pan:e=>ve(t,e),zoom:(e,n)=>pn(t,e,n),centre:e=>Er(t,e),fit:()=>ct(
t,t.whole),toEnd:e=>Or(t,e)}}function Fc(t){return{timeAt:e=>Cr(t,e),hover:(e,n)=>Dc(t,e,n),leave(){t.pointerX=null,Lr(t,null)},click:(e,n)=>Uc(t,e,n),zoomToEventAt(e,n){
let o=Me(t,e,n);o!==null&&ft(t,o,!0)},dragRange(e,n){t.range=[Math.min(e,n),Math.max(e,n)],S(t)},finishRange:()=>lt(t),measureTo(e,n){let[o,r]=[t.selected,Me(t,
e,n)];return o===null||r===null||o===r?!1:(t.range=$o(t.data,o,r),t.selected=null,lt(t),S(t),!0)},clearRange(){t.range!==null&&(t.range=null,lt(t),S(t))},toggleLane:e=>Wt(
t,it(t.layout,fe(t,e))),dropLane(e,n){let[o,r]=[e,n].map(s=>it(t.layout,fe(t,s)));Gt(t,o,r<0?n<k?0:t.order.length-1:t.order.indexOf(r))}}}function zc(t){return{
zoomToFocused(){let e=t.focused??t.selected;e!==null&&ft(t,e,!0)},toggleFocusLane:()=>Wt(t,$r(t)),pinFocusLane:()=>xe(t,$r(t)),arrow(e){t.focused!==null?Bt(t,vr(
t,t.focused,e)):e==="left"||e==="right"?ve(t,(e==="left"?-1:1)*80):t.dom.frame.scrollBy(0,(e==="up"?-2:2)*E)},enter(){let{focused:e}=t;e===null?Bt(t,kr(t,Ir(t))):
Rr(t,e)},follow(){t.focused!==null&&Bt(t,Mr(t,t.focused))},escape:()=>Bc(t),search:e=>ke(t,e),nextMatch:e=>Wc(t,e),hold:e=>Gc(t,e),focusChanged(e){t.hasFocus=e,
S(t)}}}function Cr(t,e){let n=tt(t);return n.t0+(e-t.size.gutter)/n.scale}function Me(t,e,n){let{index:o,layout:r,size:s}=t,a=Ho(r,fe(t,n));if(a===null||e<s.gutter||
n<k)return null;let i=Pc/tt(t).scale,c=ge(o,o.laneRow[a.lane]+a.row,Cr(t,e),i);return c<0?null:c}function Dc(t,e,n){let{dom:o}=t;t.pointerX=e;let r=Me(t,e,n);r!==
null&&No(o,hr(t,r),e+o.frame.offsetLeft,n+o.frame.offsetTop),Lr(t,r)}function Lr(t,e){e===null&&(t.dom.tip.hidden=!0),e!==t.hover&&(t.hover=e,t.options.onHover?.(
e),S(t))}function Uc(t,e,n){let o=Me(t,e,n);t.focused=o,o===null&&(t.range=null),Rr(t,o)}function Rr(t,e){t.selected=e,e!==null&&(t.dom.spoken.textContent=`sele\
cted ${be(t.data,e)}`),lt(t),S(t)}function Ir(t){let e=tt(t).parts.reverse().flatMap(({lanes:n})=>n);return[...e,...t.order.slice(t.order.indexOf(e[e.length-1])+
1)]}function $r(t){return t.focusLane>=0?t.focusLane:Ir(t)[0]??-1}function Bc(t){if(t.search!==null)t.dom.search.value="",ke(t,"");else if(t.focused!==null&&t.focused!==
t.selected)t.focused=null;else if(t.selected!==null||t.range!==null)Object.assign(t,{selected:null,range:null,focused:null}),lt(t);else return!1;return t.isArmed=
!1,S(t),!0}function ke(t,e){let n=Ar(t,e);return t.search=n,t.dom.matches.textContent=n&&`${O(n.count)} ${n.count===1?"match":"matches"}`,Tt(t),n?.count??0}function Wc(t,e){
let{search:n}=t;if(n===null||n.count===0)return;let{found:o,ordinal:r}=Tr(t,n,e);n.at=o,t.dom.matches.textContent=`${O(r)} of ${O(n.count)}`,t.selected=o,Bt(t,o),
lt(t)}function Gc(t,e){let n=([s,a],i)=>{s&&pn(t,Math.exp(-s*2.2*i),t.pointerX),a&&ve(t,a*900*i)};if(matchMedia("(prefers-reduced-motion: reduce)").matches){n(an(
[e]),.12);return}if(t.held.has(e))return;t.held.add(e);let o=null,r=s=>{let a=o===null?.016666666666666666:Math.min(.05,(s-o)/1e3);o=s,n(an(t.held),a),t.beforeFrame=
t.held.size?r:null,t.held.size&&S(t)};t.beforeFrame=r,S(t)}function Nr(t){let{lanesButton:e,lanes:n}=t.dom;T(t,e,"click",()=>{t.lanesPanel??=Kc(t),n.hidden=!n.hidden,e.setAttribute("aria-expanded",String(!n.hidden)),t.lanesPanel.
update()})}function Kc(t){let e=t.data.header.lanes.map((o,r)=>jc(t,r)),n=h("ul",{"aria-label":"Lanes"});return t.dom.lanes.replaceChildren(n),{update(){let{activeElement:o}=document;
n.append(...t.order.map(r=>e[r].node));for(let r of e)r.update();o instanceof HTMLElement&&n.contains(o)&&o.focus()}}}function jc(t,e){let{label:n}=t.data.header.
lanes[e],o=(f,u,d)=>h("button",{type:"button",title:u,"aria-label":`${u}: ${n}`,onclick:d},f),r=o("Pin","Pin on top",()=>xe(t,e)),s=o("\u2191","Move up",()=>Gt(
t,e,t.order.indexOf(e)-1)),a=o("\u2193","Move down",()=>Gt(t,e,t.order.indexOf(e)+1)),i=o("Fold","Fold to one row",()=>Wt(t,e));i.disabled=t.rows.heights[e]<2;let c=h(
"input",{type:"search",placeholder:"Filter names","aria-label":`Filter names: ${n}`});c.addEventListener("input",()=>Sr(t,e,c.value));for(let f of[r,s,a,i,c])f.
setAttribute("data-lm-suppress-shortcuts","true");let l=h("span",{class:"cltl-lane",title:n},n);return{node:h("li",{},r,s,a,i,l,c),update(){r.setAttribute("aria\
-pressed",String(t.pinned.has(e))),i.setAttribute("aria-pressed",String(t.collapsed.has(e)))}}}var Xc=460,Vc=150,qc="800px 0px";function Hr(t,e,n={}){let o=sr(t,e,n),r=_r(o);ir(o,r),cr(o,r),Zc(o,r),Fr(o,o.mode),Yc(o),At(o);let s=new ResizeObserver(()=>At(
o));s.observe(o.dom.frame);let a=new IntersectionObserver(i=>xr(o,i[i.length-1].isIntersecting),{rootMargin:qc});return a.observe(o.dom.frame),o.cleanups.push(()=>s.
disconnect(),()=>a.disconnect()),ye(o),Jc(o,r)}function Fr(t,e){Object.assign(t,rn(e)),Lo(t.dom.host,t.colors),Io(t.dom,wr(t)),S(t)}function Yc({dom:t,layout:e,
options:n}){let o=n.height??Math.min(Xc,Math.max(Vc,e.total+k));t.frame.style.height=`${Math.round(o)+2}px`}function Zc(t,e){let{dom:n}=t;T(t,n.zoomIn,"click",()=>e.
zoom(.5,null)),T(t,n.zoomOut,"click",()=>e.zoom(2,null)),T(t,n.fit,"click",e.fit),Nr(t),T(t,n.next,"click",()=>e.nextMatch(1)),T(t,n.previous,"click",()=>e.nextMatch(
-1)),T(t,n.frame,"scroll",()=>S(t),{passive:!0})}function Jc(t,e){return{setTheme:n=>Fr(t,n),fit:e.fit,zoomTo:(n,o)=>e.show([n,o]),getView:()=>[...t.view],select(n=null){
t.selected=n,n!==null&&ft(t,n),S(t)},setRange(n,o=null){t.range=n===null||o===null?null:[n,o],S(t)},setNames(n){t.names=n===null?null:new Set(n),Tt(t)},raceOf:n=>t.
races.find(o=>o.event===n&&n!==null)?.race??null,showRace:n=>Pr(t,t.races.find(o=>o.race===n)),showSync:n=>Pr(t,t.syncs.find(o=>o.group===n)),setMarks(n){t.marks=
n,S(t)},search(n){return t.dom.search.value=n,ke(t,n)},focus:()=>t.dom.canvas.focus({preventScroll:!0}),resize:()=>At(t),boxOf:n=>tl(t,n),stats:()=>({frames:t.script.
length,script:[...t.script]}),destroy:()=>Qc(t)}}function Qc(t){t.isGone=!0,cancelAnimationFrame(t.pending);for(let e of t.cleanups.splice(0))e();t.dom.host.remove()}
function Pr(t,e){if(e){if(e.event>=0)t.focused=e.event,ft(t,e.event);else if(e.at<t.view[0]||e.at>t.view[1]){let n=(t.view[1]-t.view[0])/2;kt(t,[e.at-n,e.at+n])}
S(t)}}function tl(t,e){let n=tt(t),o=t.data.lane[e];if(t.rows.row[e]>=t.layout.shown[o])return null;let r=n.x(t.data.start[e]),s=t.data.dur[e]*n.scale;return{x:r,
y:n.y(o,t.rows.row[e]),width:s,height:E-1}}var mn="Source of ";var el=/^(In\[\d+\])\((\d+)\): (.*)$/s;function Dr(t,e){let n=new Map;for(let o of e){let[,r,s,a]=o.match(el)??[],i=r&&Object.hasOwn(t,r)?nl(t[r],Number(s),a):"";
if(i&&n.set(`${mn}${a}, ${r}`,i),n.size===4)break}return[...n]}function nl(t,e,n){let o=t.trimEnd().split(`
`);if(e<1||e>o.length)return"";let r=n==="<module>",[s,a]=r?[0,o.length]:[e-1,ol(o,e-1)];return[...o.slice(s,Math.min(a,s+16)).map((c,l)=>`${s+l+1}  ${c}`.trimEnd()),
...a>s+16?["\u2026"]:[]].join(`
`)}function ol(t,e){let n=zr(t[e]),o=e;for(;o<t.length-1&&t[o].trimStart().startsWith("@");)o+=1;for(o+=1;o<t.length;o++){let r=t[o].trim();if(r&&zr(t[o])<=n&&!/^[)\]}]/.
test(r))break}for(;o>e+1&&!t[o-1].trim();)o-=1;return o}function zr(t){return t.length-t.trimStart().length}function rl(t,e){let n=t.header.lanes[t.lane[e]],o=[["Kind",t.header.cats[t.cat[e]]],["Start",x(t.start[e])],["Duration",x(t.dur[e])]];return n.kind==="host"&&t.
self[e]!==t.dur[e]&&o.push(["Self time",x(t.self[e])]),o.push([n.kind==="device"?"Stream":"Thread",n.label]),t.launch[e]>=0&&o.push(...sl(t,e)),o.push(...fl(t,e)),
o.push(...il(t,e)),o.push(...cl(t,e)),o.push(["Row",`trace.events.iloc[${t.rowOf(e)}]`]),o}function sl(t,e){let n=t.launch[e];return[["Launched by",t.header.names[t.
name[n]]],["Waited",x(t.start[e]-t.start[n])]]}var al=60;function il(t,e){let n=[],o=t.detailOf("stack"),r=[],s=o(e),a=s!==null;for(let i=t.launch[e]>=0?t.launch[e]:
t.parent[e];i>=0;i=t.parent[i])s??=o(i),r.length<al&&r.push(W(t.header,t.name[i]));return s!==null&&!a&&n.push(["Call stack",String(s)]),r.length&&n.push(["Call\
ed from",r.join(`
`)]),n}function cl(t,e){let n=t.detailOf("stack"),o=[],r=n(e);for(let s=t.launch[e]>=0?t.launch[e]:e;s>=0;s=t.parent[s])r??=n(s),o.push(t.header.names[t.name[s]]);
return Dr(t.header.cells,r===null?o:String(r).split(`
`))}var ll={shapes:"Input shapes",dtypes:"Input dtypes",module:"Module",grid:"Grid",block_dim:"Block",registers:"Registers a thread",shared_memory_bytes:"Shared\
 memory",blocks_per_sm:"Blocks per SM",warps_per_sm:"Warps per SM",occupancy_pct:"Occupancy",num_bytes:"Bytes",flops:"FLOPs",step:"Step",correlation_id:"Correla\
tion id",external_id:"External id",sequence_nr:"Sequence number",graph_id:"CUDA graph",graph_node_id:"Graph node",collective:"Collective",process_group:"Process\
 group",stack:"Call stack"};function fl(t,e){let n=[];for(let[o,r]of Object.entries(t.detail(e)))r===null||r===""||n.push([ll[o]??o,ul(o,r)]);return n}function ul(t,e){
return t.endsWith("_bytes")?M(Number(e)):t==="occupancy_pct"?`${e} %`:typeof e=="number"?O(e):String(e)}function Ur(t,e,n){if(n===null){t.replaceChildren();return}
let o=h("dl",{class:"cl-facts"});for(let[r,s]of rl(e,n))o.append(h("dt",{},r),h("dd",{class:r.startsWith(mn)?"cl-source":""},s));t.replaceChildren(h("h3",{"aria\
-level":2,class:"cl-event"},e.header.names[e.name[n]]),o)}var dl=500;function Br(t,e,{onChange:n,onShow:o}){let r=h("ul",{class:"cl-mark-list","aria-label":"Marks"});t.replaceChildren(r);let s=l=>{a(l),n(l)},a=l=>{c.marks=
[...l].sort((f,u)=>f.at-u.at),t.hidden=l.length===0,r.replaceChildren(...c.marks.map(i))},i=l=>{let f=l.note||"(no note)",u=l.dur?`${x(l.at)}, ${x(l.dur)} long`:
x(l.at),d=()=>s(c.marks.filter(p=>p!==l));return h("li",{},h("button",{class:"cl-mark",type:"button",title:u,onclick:()=>o(l)},f),h("span",{class:"cl-hint"},u),
h("button",{type:"button","aria-label":`Remove the mark ${f}`,onclick:d},"\xD7"))},c={marks:[],add:l=>s([...c.marks,l]),replace:a};return a(e),c}function Wr(t,{
range:e,event:n},o){let r=e??(n===null?null:hl(t,n));if(r===null)return[];let s=h("input",{class:"cl-note",type:"text",maxlength:dl,placeholder:"Note","aria-lab\
el":"Note of the mark","data-lm-suppress-shortcuts":"true"}),a=()=>{o({at:Math.round(r[0]),dur:Math.round(r[1]-r[0]),note:s.value.trim()}),s.value=""};return s.
addEventListener("keydown",i=>{i.stopPropagation(),i.key==="Enter"&&a()}),[s,h("button",{class:"cl-button",type:"button",title:"Mark the selected time",onclick:a},
"Mark")]}function hl({start:t,dur:e},n){return[t[n],t[n]+e[n]]}var gn={range:null,event:null,names:null};function jr(){let t=gn,e=new Set,n={get:()=>t,isEmpty:()=>wn(t,gn),set(o,r){let s={...t,...o};if(s.names?.size===0&&(s.
names=null),!wn(t,s)){t=s;for(let a of[...e])a(t,r)}},clear:o=>n.set(gn,o),subscribe(o){return e.add(o),()=>e.delete(o)}};return n}function wn(t,e){return t.event===
e.event&&Gr(t.range,e.range)&&Gr(t.names,e.names)}function Gr(t,e){if(t===null||e===null)return t===e;let[n,o]=[[...t],[...e]];return n.length===o.length&&n.every(
(r,s)=>r===o[s])}function pl({n:t,parent:e,launch:n,lane:o,start:r,dur:s},a){let i=new Uint8Array(t);i[a]=1;let c=r[a]+s[a];for(let l=a+1;l<t&&o[l]===o[a]&&r[l]<=
c;l++)e[l]>=0&&i[e[l]]&&(i[l]=1);for(let l=0;l<t;l++)n[l]>=0&&i[n[l]]&&(i[l]=1);return i}var ml=3,Kr=new WeakMap;function V(t,e){let n=Kr.get(t)??[],o=n.find(s=>wn(
s.selection,e));if(o)return o.mask;let r=gl(t,e);return Kr.set(t,[{selection:{...e},mask:r},...n].slice(0,ml)),r}function gl(t,{range:e,event:n,names:o}){if(e===
null&&n===null&&o===null)return null;let r=n===null?new Uint8Array(t.n).fill(1):pl(t,n);if(e!==null&&wl(t,r,e),o===null)return r;let s=new Uint8Array(t.header.names.
length);for(let a of o)s[a]=1;for(let a=0;a<t.n;a++)r[a]&=s[t.name[a]];return r}function wl({n:t,start:e,dur:n},o,[r,s]){for(let a=0;a<t;a++){let i=e[a],c=i+n[a];
(i===c?i<r||i>s:i>=s||c<=r)&&(o[a]=0)}}var bl=2e3;function Xr(t,e){let{range:n,event:o,names:r}=e;if(o!==null)return xl(t,e);let s=[];if(n){let c=u=>String(BigInt(t.header.t0)+BigInt(u)),[l,f]=[Math.
floor(n[0]),Math.ceil(n[1])];s.push(`((e.ts < ${c(f)}) & (e.ts + e.dur > ${c(l)}) & (e.dur > 0) | (e.dur == 0) & e.ts.between(${c(Math.ceil(n[0]))}, ${c(Math.floor(
n[1]))}))`)}r&&s.push(`e.name.isin(${yl(t,r)})`);let{first_row:a}=t.header,i=a?`trace.events.iloc[${a}:]`:"trace.events";return s.length?`${i}[lambda e: ${s.join(
" & ")}]`:i}function yl(t,e){let n=bn(t,e);return n?`trace.events.name.iloc[[${n.join(", ")}]]`:vl([...e].map(o=>t.header.names[o]))}function bn(t,e){return t.header.
are_names_cut?[...e].map(n=>t.rowOf(t.name.indexOf(n))):null}function xl(t,e){let n=V(t,e),o=[];for(let s=0;s<t.n;s++)if(n?.[s]&&o.push(s),o.length>bl)return null;
return`trace.events.iloc[[${o.map(s=>t.rowOf(s)).sort((s,a)=>s-a).join(", ")}]]`}function vl(t){let e=n=>JSON.stringify(n).replace(/[\u007f-\uffff]/g,o=>`\\u${o.
charCodeAt(0).toString(16).padStart(4,"0")}`);return`[${t.map(e).join(", ")}]`}var Ml={light:["#0b62c4","#b35c00","#6f42c1","#00796b","#b02f78","#5a7a0a","#a3301f"],dark:["#6cb6ff","#f0a050","#c4a5ff","#5fd0c0","#f08cc4","#b5d35a","#ff9a8a"]},
kl={light:"#4f6673",dark:"#a9bfca"};function St(t,e){let n=t.startsWith("cpu")?null:/\d+$/.exec(t),o=Ml[e];return n?o[Number(n[0])%o.length]:kl[e]}function Vr({ts:t,values:e},[n,o]){let[r,s]=[0,t.length];for(;r+1<t.length&&t[r+1]<n;)r+=1;for(;s-2>r&&t[s-2]>o;)s-=1;return Al(t.subarray(r,s),e.subarray(r,s))}
function Al(t,e){let n=t.length;if(n<=4e3)return{ts:Array.from(t),values:Array.from(e)};let o=[0],r=(n-2)/(4e3/2-1);for(let s=0;s*r<n-2;s++){let[a,i]=[1+Math.floor(
s*r),Math.min(n-1,1+Math.floor((s+1)*r))],[c,l]=[a,a];for(let f=a;f<i;f++)e[f]<e[c]&&(c=f),e[f]>e[l]&&(l=f);a<i&&o.push(Math.min(c,l),...c===l?[]:[Math.max(c,l)])}
return o.push(n-1),{ts:o.map(s=>t[s]),values:o.map(s=>e[s])}}var Qr={light:{range:"#0b62c4",text:"#57606a",grid:"#d9dee4",fill:.14},dark:{range:"#6cb6ff",text:"#9aa5b1",grid:"#30363d",fill:.2}},Tl=[[2**30,"GiB"],[2**20,"M\
iB"],[2**10,"KiB"],[1,"B"]],Sl=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"],[1,"ns"]],qr={displayModeBar:!1,responsive:!1,doubleClick:!1,showTips:!1};function yn(t){return Math.
max(56,Math.round(Math.min(188,Math.max(132,t*.2),t*.35))-1)}function ts(t,e,{Plotly:n,theme:o,view:r,onRange:s}){let a=h("div",{class:"cl-plot"});t.replaceChildren(
a);let i=e.map(El),c=Yr(r[1]-r[0],Sl),l=Yr(Math.max(...i.map(g=>g.value),1),Tl),f={root:a,series:e,peaks:i,time:c,bytes:l,theme:o,range:null,view:r,width:0},u=n.
newPlot(a,Zr(f),Jr(f),qr).then(g=>{g.on("plotly_selected",m=>{m?.range&&s(Ol(m.range.x,c[0]))}),g.on("plotly_deselect",()=>s(null)),g.on("plotly_doubleclick",()=>s(
null))}),d=async()=>{await u,a.isConnected&&await n.react(a,Zr(f),Jr(f),qr)},p=g=>(Object.assign(f,g),d());return{ready:u,setRange:g=>p({range:g}),setView:g=>p(
{view:g}),setTheme:g=>p({theme:g}),async resize(){await d(),a.isConnected&&a.clientWidth&&n.Plots.resize(a)},destroy:()=>u.then(()=>n.purge(a))}}function El({ts:t,
values:e}){let n=0;for(let o=1;o<e.length;o++)e[o]>e[n]&&(n=o);return{ts:t[n],value:e[n]}}function Yr(t,e){return e.find(([n])=>t>=n)??e[e.length-1]}function Ol(t,e){
let[n,o]=t.map(r=>r*e);return n===o?null:[Math.min(n,o),Math.max(n,o)]}function Zr({series:t,view:e,theme:n,time:o,bytes:r}){return t.map(s=>{let a=Vr(s,e),i=St(
s.label,n);return{type:"scatter",mode:"lines",name:s.label,x:a.ts.map(c=>c/o[0]),y:a.values.map(c=>c/r[0]),line:{shape:"hv",width:1.5,color:i},fill:t.length===1?
"tozeroy":"none",fillcolor:`rgba(${vt(i).join(",")},${Qr[n].fill})`,text:a.values.map((c,l)=>`${M(c)} at ${x(a.ts[l])}`),hoverinfo:"text+name"}})}function Jr(t){
let{range:e,view:n,time:o,bytes:r}=t;t.width=t.root.clientWidth||t.width;let{text:s,grid:a,range:i}=Qr[t.theme],c={gridcolor:a,zerolinecolor:a,linecolor:a,tickcolor:a,
fixedrange:!0,separatethousands:!0};return{height:200,margin:{l:yn(t.width),r:1,t:22,b:34},paper_bgcolor:"rgba(0,0,0,0)",plot_bgcolor:"rgba(0,0,0,0)",font:{color:s,
size:11,family:"inherit"},dragmode:"select",selectdirection:"h",showlegend:t.series.length>1,legend:{orientation:"h",x:0,y:1.18},hovermode:"closest",newselection:{
line:{color:s,width:1}},xaxis:{...c,range:n.map(l=>l/o[0]),ticksuffix:` ${o[1]}`},yaxis:{...c,rangemode:"tozero",ticksuffix:` ${r[1]}`},shapes:e===null?[]:[_l(e,
i,o[0])],annotations:$l(t)}}function $l({series:t,peaks:e,view:n,theme:o,time:r,bytes:s}){return e.map((a,i)=>{let c=St(t[i].label,o);return{x:a.ts/r[0],y:a.value/
s[0],text:`peak ${M(a.value)}`,showarrow:!0,arrowhead:0,arrowwidth:1,ax:a.ts>(n[0]+n[1])/2?-44:44,ay:-14,bgcolor:"rgba(0,0,0,0)",font:{color:c,size:11},arrowcolor:c}})}
function _l([t,e],n,o){return{type:"rect",xref:"x",yref:"paper",x0:t/o,x1:e/o,y0:0,y1:1,fillcolor:n,opacity:.18,line:{width:1,color:n},layer:"below"}}var jt=44,es=8,Cl=2e3;function ns({unit:t,column:e},n){return n===void 0||Number.isNaN(n)?"-":e.endsWith("_bytes")?M(n):t==="%"?R(n):`${Math.round(n).toLocaleString(
"en-US")} ${t}`}function xn(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function os(t,e=0){return t.reduce((n,o)=>o>n?o:n,e)}
function rs(t,e,n,{theme:o,view:r}){let a=n.filter(({column:m})=>e.some(({values:w})=>w[m].some(y=>!Number.isNaN(y)))).map(m=>({gauge:m,largest:m.full??Math.max(
...e.map(({values:w})=>os(w[m.column])),1e-9)})),i=h("p",{class:"cl-metrics-legend"}),l=z("svg",{class:"cl-metrics-plot",role:"img","aria-label":"Readings of th\
e GPUs over time"}),f=h("p",{class:"cl-metrics-tip cl-hint","aria-live":"off"}),u=z("path",{class:"cl-metrics-cursor",fill:"none"});t.replaceChildren(i,l,f);let d=`\
cl-metrics-${Math.random().toString(36).slice(2)}`,p=a.length*(jt+es),g={host:t,devices:e,rows:a,id:d,height:p,legend:i,plot:l,cursor:u,tip:f,theme:o,view:r,width:0};
return l.addEventListener("pointermove",m=>Il(g,m)),l.addEventListener("pointerleave",()=>as(g)),Ae(g),{setView(m){g.view=m,Ae(g)},setTheme(m){g.theme=m,Ae(g)},
resize:()=>Ae(g),destroy:()=>t.replaceChildren()}}function ss(t){let e=Math.max(t.host.clientWidth||t.width,200);t.width=e;let n=yn(e),o=e-n-1,[r,s]=t.view;return{
width:e,gutter:n,inner:o,x:a=>n+(a-r)/(s-r)*o}}function Ae(t){let{devices:e,height:n,id:o,legend:r,plot:s}=t,a=ss(t),i=e.length>1?e.map(({label:f})=>f):[];r.replaceChildren(
...i.map(f=>h("span",{style:`color:${St(f,t.theme)}`},f)));let c=z("rect",{x:a.gutter,y:0,width:a.inner,height:n}),l=t.rows.map((f,u)=>Ll(t,u,a));s.setAttribute(
"width",String(a.width)),s.setAttribute("height",String(n)),s.setAttribute("viewBox",`0 0 ${a.width} ${n}`),s.replaceChildren(z("clipPath",{id:o},c),...l,t.cursor)}
function Ll({devices:t,rows:e,id:n,theme:o,view:r},s,{width:a,gutter:i,x:c}){let{gauge:l,largest:f}=e[s],u=s*(jt+es),d=m=>u+jt-(jt-3)*Math.min(m/f,1),p=Math.max(
...t.map(({values:m})=>os(m[l.column]))),g=t.map(({label:m,ts:w,values:y})=>z("path",{d:Rl(w,y[l.column],r,c,d),fill:"none",stroke:St(m,o),"stroke-width":1.4}));
return z("g",{},z("text",{x:0,y:u+16},l.title),z("text",{x:0,y:u+31,class:"cl-metrics-muted"},`up to ${ns(l,p)}`),z("path",{d:`M${i} ${u+jt}H${a-1}`,class:"cl-m\
etrics-base"}),z("g",{"clip-path":`url(#${n})`},...g))}function Rl(t,e,[n,o],r,s){let a=Math.max(xn(t,n),0),i=Math.min(xn(t,o)+2,t.length),c=Math.max(1,Math.ceil(
(i-a)/Cl)),l="";for(let f=a;f<i;f+=c){let u=f;for(let d=f;d<Math.min(f+c,i);d++)(e[d]>e[u]||Number.isNaN(e[u]))&&(u=d);Number.isNaN(e[u])||(l+=`${l?"L":"M"}${r(
t[u]).toFixed(1)} ${s(e[u]).toFixed(1)}`)}return l}function Il(t,e){let{gutter:n,inner:o}=ss(t),r=e.clientX-t.plot.getBoundingClientRect().left;if(r<n||r>n+o){as(
t);return}let[s,a]=t.view,i=s+(r-n)/o*(a-s);t.cursor.setAttribute("d",`M${r.toFixed(1)} 0V${t.height}`);let c=t.devices.map(l=>Nl(t,l,i));t.tip.textContent=[x(i),
...c].filter(Boolean).join(" \xB7 ")}function Nl({devices:t,rows:e},{label:n,ts:o,values:r,slowed:s,reasons:a},i){let c=xn(o,i);if(c<0)return"";let l=e.map(({gauge:f})=>ns(
f,r[f.column][c])).join(", ");return`${t.length>1?`${n}: `:""}${l}${s[c]?`, throttled by ${a[s[c]]}`:""}`}function as({cursor:t,tip:e}){t.removeAttribute("d"),e.
textContent=""}function q(t,e,n,o){let r=e.map(([i,c])=>{let l=()=>{s(i),o(i)},f=String(i===n);return h("button",{type:"button",class:"cl-button","data-key":i,"aria-pressed":f,
onclick:l},c)}),s=i=>{for(let c of r)c.setAttribute("aria-pressed",String(c.dataset.key===i))};return{group:h("div",{class:"mm-choice",role:"group","aria-label":t},
h("span",{class:"mm-muted"},t),...r),mark:s}}function et(t,e,n){let o=/[a-z]/i.test(t)?null:e;return h("button",{type:"button",class:"cl-button",title:e,"aria-l\
abel":o,onclick:n},t)}function is(){let t=["allocated","active","reserved"].map(e=>h("span",{class:"mm-key"},h("i",{class:`mm-line-${e}`}),e));return h("p",{class:"\
mm-legend"},...t)}function cs(t,e){let n=Pl(t,e),o={};for(let[r,s]of Object.entries(e.self)){let a=new Float64Array(t.parent.length);s.forEach((i,c)=>{a[n[c]]+=i});for(let i=a.length-
1;i>0;i--)a[t.parent[i]]+=a[i];o[r]=a}t.before=o}function Pl(t,{parent:e,label:n}){let o=new Map;for(let s=1;s<t.parent.length;s++)o.set(`${t.parent[s]} ${t.labels[t.
label[s]]}`,s);let r=[];return e.forEach((s,a)=>{let i=s<0?0:r[s],c=`${i} ${n[a]}`,l=o.get(c)??Hl(t,i,n[a]);o.set(c,l),r.push(l)}),r}function Hl(t,e,n){let o=t.
parent.length;return t.parent.push(e),t.depth.push(t.depth[e]+1),t.label.push(t.labels.push(n)-1),t.sample.push(-1),t.children.push([]),t.children[e].push(o),o}var nt=19,ls=420,Fl=.8,fs=4,zl=2,Dl=.99,Ul={light:["#f3b562","#f0a06a","#eec57c","#e9927a","#f6d08f"],dark:["#a8642a","#9c5230","#8f6b2f","#a14b3f","#b07a35"]},
us={light:"#000000",dark:"#ffffff"},Bl={light:"#b79cf0",dark:"#7a5cc4"};function ds({parent:t,weight:e,children:n},o,r){let s=Wl(t,o,r),a=r/Math.max(e[o],1),i=[
{node:o,x:0,row:s.length}];for(let c=i.pop();c;c=i.pop()){let{x:l}=c,{row:f}=c;for(let u of[...n[c.node]].sort((d,p)=>e[p]-e[d])){let d=e[u]*a;if(d<Fl)break;let p=c.
row<=zl?Gl(n,e,u):[u],g=p.length>=fs,m=g?p[p.length-1]:u;s.push({node:m,x:l,width:d,row:f,folded:g?p.length:0}),i.push({node:m,x:l,row:f+1}),l+=d}}return s}function Wl(t,e,n){
let o=[];for(let a=e;a>=0;a=t[a])o.unshift(a);let r=o.length>fs+1;return(r?[o[0],t[e],e]:o).map((a,i)=>({node:a,x:0,width:n,row:i,folded:r&&i===1?o.length-2:0}))}
function Gl(t,e,n){let o=[n];for(let r=n;;){let s=t[r].find(a=>e[a]>=Dl*e[r]);if(s===void 0||!t[s].length)return o;o.push(s),r=s}}function hs(t,e,n){let o=nt*(1+
e.reduce((c,{row:l})=>Math.max(c,l),0)),r=Math.min(devicePixelRatio||1,2);t.width=Math.floor(n.width*r),t.height=Math.floor(o*r),t.style.width=`${n.width}px`,t.
style.height=`${o}px`;let s=N(t),a=getComputedStyle(t);s.scale(r,r),s.font=`11px ${a.fontFamily}`,s.textBaseline="middle";for(let c of e)Kl(s,c,n);let i=e.find(
({node:c})=>c===n.focus);i&&jl(s,i,a.color)}function Kl(t,{node:e,x:n,width:o,row:r,folded:s},{graph:a,root:i,query:c,theme:l,options:f}){let u=s?`${s} callers,\
 to ${f.textOf(e)}`:f.textOf(e),d=c!==""&&u.toLowerCase().includes(c),p=e!==i&&r<=a.depth[i],[g,m]=Xl(a,e,u,l,f),w=r*nt;if(t.globalAlpha=c&&!d?.4:p?.6:1,t.fillStyle=
d?Bl[l]:g,t.fillRect(n,w,Math.max(o-1,.6),nt-1),t.globalAlpha=1,o<=30)return;t.fillStyle=d||t.globalAlpha<1?us[l]:m;let y=o-8,b=`${u}  ${f.format(a.weight[e])}`,
v=t.measureText(b).width<=y?b:rt(t,u,y);t.fillText(v,n+4,w+nt/2)}function jl(t,{x:e,width:n,row:o},r){t.strokeStyle=r,t.lineWidth=2,t.strokeRect(e+1,o*nt+1,Math.
max(n-3,1),nt-3)}function Xl({weight:t,before:e},n,o,r,{colorOf:s}){if(e){let i=(t[n]-e[n])/Math.max(t[n],e[n],1),c=Math.round(Math.min(1,Math.abs(i))*80),[l,f]=[
i>0?"#d1493f":"#2f6fd0",r==="dark"?"#4a525c":"#dfe3e8"];return[`color-mix(in srgb, ${l} ${c}%, ${f})`,r==="dark"||c>55?"#ffffff":"#000000"]}if(s)return n?s(n,o,
r):r==="dark"?["#4a525c","#ffffff"]:["#dfe3e8","#000000"];let a=Ul[r];return[a[n?Mt(o)%a.length:0],us[r]]}function Te(t,e){let n=Vl(t,e),o=h("div",{class:"mm-tools"},n.input,n.reset,n.found);return t.replaceChildren(o,n.stage,n.spoken),Zl(n),{show(r){n.graph?.parent!==
r.parent&&Object.assign(n,{root:0,focus:-1}),n.graph=r,n.reset.hidden=n.root===0,n.query&&vn(n,n.input.value),Et(n)},zoom:r=>Xt(n,r),search(r){n.input.value=r,vn(
n,r)},get graph(){return n.graph},get root(){return n.root},boxes:()=>n.boxes,textOf:r=>n.graph?e.textOf(r):"",setTheme(r){n.theme=r,Et(n)},resize(){t.clientWidth!==
n.width&&Et(n)},destroy(){cancelAnimationFrame(n.pending),t.replaceChildren()}}}function Vl(t,e){let n=h("canvas",{class:"mm-flame-canvas",tabindex:0,role:"appl\
ication","aria-label":`${e.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,"data-lm-suppress-shortcuts":"true"}),o=h("div",{class:"mm-flame\
-scroll"},n);o.style.maxHeight=`${ls}px`;let r=h("div",{class:"mm-tip",hidden:!0});return{options:e,host:t,input:h("input",{type:"search",class:"mm-search",placeholder:e.
placeholder,"aria-label":e.searchLabel,"data-lm-suppress-shortcuts":"true"}),reset:h("button",{type:"button",class:"cl-button",hidden:!0},"Whole graph"),found:h(
"span",{class:"mm-muted","aria-live":"polite"}),scroller:o,stage:h("div",{class:"mm-flame-stage"},o,r),canvas:n,tip:r,spoken:h("p",{class:"mm-said","aria-live":"\
polite"}),theme:e.theme,graph:null,root:0,focus:-1,query:"",boxes:[],width:0,pending:0}}function Et(t){let{graph:e}=t;t.pending||!e||(t.pending=requestAnimationFrame(
()=>{t.pending=0,ql(t)}))}function ql(t){let{canvas:e,options:n,graph:o,root:r,focus:s,query:a,theme:i}=t;o&&(t.width=Math.max(t.host.clientWidth||t.width,160),
t.boxes=ds(o,r,t.width),hs(e,t.boxes,{graph:o,root:r,focus:s,query:a,theme:i,width:t.width,options:n}))}function Xt(t,e){t.root=e,t.reset.hidden=e===0,t.tip.hidden=
!0,Et(t),t.options.onZoom(e)}function vn(t,e){t.query=e.trim().toLowerCase(),Et(t),t.found.textContent=t.query&&t.graph?Yl(t,t.graph):""}function Yl({options:t,
query:e},n){let o=n.parent.length,[r,s]=[new Uint8Array(o),new Uint8Array(o)],[a,i]=[0,0];for(let c=1;c<o;c++){let l=n.parent[c];r[c]=t.textOf(c).toLowerCase().
includes(e)?1:0,s[c]=s[l]||r[l]?1:0,!(!r[c]||s[c])&&(a+=n.weight[c],i+=n.num[c])}return i?ps(t,n,a,i):"nothing fits"}function ps(t,e,n,o){let r=e.weight[0]?100*
n/e.weight[0]:0;return t.amountOf(n,o).replace("%",R(r))}function Zl(t){let{canvas:e,tip:n,input:o}=t;t.reset.addEventListener("click",()=>Xt(t,0)),o.addEventListener(
"input",()=>vn(t,o.value)),e.addEventListener("click",r=>{let s=ms(t,r);s&&Xt(t,s.node)}),e.addEventListener("pointermove",r=>Jl(t,r)),e.addEventListener("point\
erleave",()=>{n.hidden=!0}),e.addEventListener("keydown",r=>{!t.graph||r.altKey||r.ctrlKey||r.metaKey||tf(t,t.graph,r.key)&&(r.preventDefault(),r.stopPropagation())})}
function ms({canvas:t,boxes:e},n){let o=t.getBoundingClientRect(),[r,s]=[n.clientX-o.left,Math.floor((n.clientY-o.top)/nt)];return e.find(a=>a.row===s&&a.x<=r&&
r<a.x+Math.max(a.width,1))}function Jl(t,e){let{tip:n,graph:o,stage:r}=t,s=ms(t,e);if(n.hidden=!s,!s||!o)return;n.replaceChildren(...gs(t,o,s.node).map(i=>h("di\
v",{},i)));let a=r.getBoundingClientRect();n.style.left=`${Math.max(Math.min(e.clientX-a.left+12,t.width-n.offsetWidth-4),0)}px`,n.style.top=`${e.clientY-a.top+
16}px`}function gs({options:t},e,n){let o=[t.textOf(n),ps(t,e,e.weight[n],e.num[n])];if(e.before){let r=e.weight[n]-e.before[n];o.push(`${r<0?"\u2212":"+"}${t.format(
Math.abs(r))} against the other run`)}return[...o,...t.notesOf?.(n)??[]].filter(Boolean)}function Ql({boxes:t,focus:e},{parent:n},o){let r=t.find(({node:c})=>c===
e)??t[0],s=t.filter(c=>c.row===r.row).sort((c,l)=>c.x-l.x),a=c=>s[Math.min(Math.max(s.indexOf(r)+c,0),s.length-1)].node;if(o==="ArrowUp")return Math.max(n[r.node],
0);if(o==="ArrowLeft")return a(-1);if(o==="ArrowRight")return a(1);if(o!=="ArrowDown")return null;let i=t.filter(({node:c})=>n[c]===r.node).sort((c,l)=>l.width-
c.width);return i.length?i[0].node:r.node}function tf(t,e,n){let o=Ql(t,e,n);if(o!==null)t.focus=t.focus<0?t.boxes[0].node:o,t.spoken.textContent=gs(t,e,t.focus).
join(", "),Et(t);else if((n==="Enter"||n===" ")&&t.focus>=0)Xt(t,t.focus);else if(n==="Escape"&&t.root)Xt(t,0);else return!1;return!0}var ef=new Set(["kernel","gpu_memcpy","gpu_memset"]);function ws(t){let e=o=>t.header.details.some(r=>r.name===o);return[["tree","call tree",!0],["python","Pyth\
on",t.header.cats.includes("python_function")],["stack","call stacks",e("stack")],["module","modules",e("module")]].flatMap(([o,r,s])=>s?[[o,r]]:[])}function bs(t,e){
let n=nf(t),{n:o,header:r}=t,s=r.lanes.map(({kind:w})=>w==="device"),a=e==="stack"||e==="module"?of(n,t,e):null,i=r.cats.map(w=>w==="python_function"),c=r.cats.
map(w=>w==="Trace"||w==="overhead");for(let w=0;w<o;w++){if(s[t.lane[w]]||c[t.cat[w]])continue;let y=a?a(w):-1,b=t.parent[w]<0?-1:n.nodeOf[t.parent[w]],v=y>=0?y:
b>=0?b:a?n.none:0;n.nodeOf[w]=e==="python"&&!i[t.cat[w]]?v:n.add(v,n.labelOf[t.name[w]],w)}let l=r.cats.map(w=>ef.has(w));for(let w=0;w<o;w++){if(!s[t.lane[w]]||
!l[t.cat[w]]||t.flags[w]&C.instant)continue;let y=t.launch[w],b=a?n.add(0,n.text("(no launch)"),-1):0,v=y<0?b:Math.max(n.nodeOf[y],0);n.nodeOf[w]=n.add(v,n.labelOf[t.
name[w]],w)}let{parent:f,depth:u,label:d,labels:p,sample:g,nodeOf:m}=n;return{parent:f,depth:u,label:d,labels:p,sample:g,nodeOf:m,children:rf(f)}}function nf(t){
let e=[...t.header.names],[n,o]=[new Set(t.header.step_names),e.length];n.size&&e.push("ProfilerStep*");let r=new Map,s=new Map,a=2**24,i={parent:[-1],depth:[0],
label:[-1],sample:[-1],labels:e,labelOf:t.header.names.map((c,l)=>n.has(l)?o:l),nodeOf:new Int32Array(t.n).fill(-1),none:0,text(c){let l=s.get(c)??e.push(c)-1;return s.
set(c,l),l},add(c,l,f){let u=c*a+l,d=r.get(u);return d===void 0&&(d=i.parent.length,r.set(u,d),i.parent.push(c),i.depth.push(i.depth[c]+1),i.label.push(l),i.sample.
push(f)),d}};return i}function of(t,e,n){t.none=t.add(0,t.text(`(no ${n})`),-1);let o=new Map,r=e.detailOf(n);return s=>{let a=r(s);if(a===null)return-1;let i=String(
a),c=o.get(i);return c===void 0&&(c=(n==="stack"?i.split(`
`).reverse():i.split(".")).filter(Boolean).reduce((f,u)=>t.add(f,t.text(u),-1),0),o.set(i,c)),c}}function rf(t){let e=t.map(()=>[]);for(let n=1;n<t.length;n++)e[t[n]].
push(n);return e}function Mn(t,{label:e,labels:n},o){return o?e[o]<t.header.names.length?W(t.header,e[o]):n[e[o]]:"all"}function ys({header:t,memory:e}){let n=[];t.lanes.some(({kind:s,count:a})=>s==="device"&&a)&&n.push(["device","GPU time"]),t.lanes.some(({kind:s,count:a})=>s===
"host"&&a)&&n.push(["host","CPU time"]);let{n:o,num_actions:r}=t.memory;return o===r&&e.some(({event:s})=>s.some(a=>a>=0))&&n.push(["memory","allocated bytes"]),
n}function*xs(t,e,n,o,r){let{parent:s,nodeOf:a}=e,i={weight:new Float64Array(s.length),num:new Float64Array(s.length)};n==="memory"?ff(t,a,o,r,i):yield*sf(t,a,n===
"device",o,r,i);let{weight:c,num:l}=i;for(let f=s.length-1;f>0;f--)c[s[f]]+=c[f],l[s[f]]+=l[f];return i}function*sf(t,e,n,o,r,s){let a=r?yield*cf(t,n,r):n?t.dur:
t.self;for(let[i,c]of vs(t,n))af(t,e,o,a,s,i,c),yield}function af({flags:t},e,n,o,{weight:r,num:s},a,i){let c=C.instant|C.waiting;for(let l=a;l<i;l++){let f=e[l];
f<0||t[l]&c||n!==null&&!n[l]||(o[l]>0&&(r[f]+=o[l]),s[f]+=1)}}function*cf(t,e,n){let o=new Float64Array(t.n);for(let[r,s]of vs(t,e))t.start[r]>=n[1]||(lf(t,n,o,
r,s),yield);return o}function lf({start:t,dur:e,parent:n},[o,r],s,a,i){for(let c=a;c<i&&t[c]<r;c++){let l=t[c]+e[c];if(l<=o)continue;let f=Math.min(l,r)-Math.max(
t[c],o);s[c]+=f,n[c]>=0&&(s[n[c]]-=f)}}function*vs({header:t},e){let n=0;for(let{kind:o,count:r}of t.lanes)o==="device"===e&&(yield*at(n,n+r)),n+=r}function ff({
memory:t},e,n,o,{weight:r,num:s}){let a=t.filter(({label:i})=>i!=="cpu");for(let{ts:i,bytes:c,action:l,actions:f,event:u}of a.length?a:t)for(let d=0;d<i.length;d++){
let p=u[d]<0?-1:e[u[d]];p<0||!f[l[d]].startsWith("alloc")||!(c[d]>0)||n!==null&&!n[u[d]]||o!==null&&(i[d]<o[0]||i[d]>o[1])||(r[p]+=c[d],s[p]+=1)}}function Ms(t,e,{theme:n,baseline:o,onEvent:r}){let[s,a]=[ws(e),ys(e)],i={data:e,known:new Map,by:s[0][0],weight:a[0]?.[0]??"host",selection:{range:null,event:null,
names:null},isCompared:o!==null,baseline:o,tones:zt(n)},c=b=>{Object.assign(i,b),G(y())},l=q("By",s,i.by,b=>c({by:b})),f=q("Width",a,i.weight,b=>c({weight:b})),
u=et("Show in the timeline","Select the longest call of this node in the timeline",()=>{let b=wf(i,g.root);b>=0&&r(b)}),d=h("p",{class:"mm-muted cl-flame-note",
role:"status"}),p=h("div",{class:"cl-flame-graph"});t.replaceChildren(h("div",{class:"mm-tools"},l.group,f.group,...df(i,c),u),d,p);let g=Te(p,{theme:n,label:"C\
osts by call path",placeholder:"Search names",searchLabel:"Search call paths",textOf:b=>Mn(e,Ot(i),b),amountOf:(b,v)=>`${kn(i)(b)} (%), ${$(v,pf(i))}`,format:b=>kn(
i)(b),notesOf:b=>[mf(i,b)],colorOf:(b,v)=>gf(i,b,v),onZoom(b){u.hidden=b===0}});u.hidden=!0;let m=!1,w=0;function*y(){if(m=t.hidden===!0,w+=1,m)return;let b=w,v=Ot(
i),I=V(e,{...i.selection,names:null}),{weight:L,num:P}=yield*xs(e,v,i.weight,I,i.selection.range);if(b!==w)return;let wt={parent:v.parent,depth:v.depth,children:v.
children,weight:L,num:P},Ht=uf(i,v);g.show(Ht?{...wt,before:Ht}:wt),d.textContent=hf(i,L[0])}return G(y()),{flame:g,get paths(){return Ot(i)},*update(b){i.selection=
b,yield*y()},shown(){m?G(y()):g.resize()},setGrouping(b){l.mark(b),c({by:b})},setWeight(b){f.mark(b),c({weight:b})},setTheme(b){i.tones=zt(b),g.setTheme(b)},resize:()=>g.
resize(),destroy:()=>g.destroy()}}function Ot({data:t,known:e,by:n,baseline:o}){let r=e.get(n)??bs(t,n);return!e.has(n)&&o&&n==="tree"&&cs(r,o),e.set(n,r),r}function uf({
by:t,weight:e,selection:n,isCompared:o},r){if(!(!o||t!=="tree"||n.range||n.event!==null))return r.before?.[e]}function df(t,e){if(!t.baseline)return[];let n=[["\
yes",`against ${t.baseline.name}`],["no","this run"]];return[q("Colours",n,"yes",o=>e({isCompared:o==="yes"})).group]}function hf(t,e){let{range:n,event:o}=t.selection,
r=n?`of the selected ${x(n[1]-n[0])}`:o===null?"of the whole trace":"within the selected event",s=t.isCompared&&t.baseline&&t.by==="tree"?"; red: more than in t\
he other run, blue: less":"";return`${kn(t)(e)} ${r}${s}`}function kn({weight:t}){return t==="memory"?M:x}function pf({weight:t}){return t==="memory"?"allocatio\
n":t==="device"?"kernel":"call"}function mf(t,e){let n=Ot(t),o=e?n.labels[n.label[e]]:"";return o===Mn(t.data,n,e)?"":o.slice(0,400)}function gf(t,e,n){let o=Ot(
t).sample[e],{data:r,tones:s}=t,a=o<0?"python_function":r.header.cats[r.cat[o]],i=ue(a,n)*K+Mt(n)%K;return[s.css[i],s.ink[i]]}function wf(t,e){let{data:n}=t,{parent:o,
nodeOf:r}=Ot(t),s=new Uint8Array(o.length);s[e]=1;for(let c=e+1;c<o.length;c++)s[c]=s[o[c]];let[a,i]=[-1,-1];for(let c=0;c<n.n;c++)r[c]<0||!s[r[c]]||((a<0||n.dur[c]>
n.dur[a])&&(a=c),r[c]===e&&(i<0||n.dur[c]>n.dur[i])&&(i=c));return i>=0?i:a}var bf=new Set(["article","b","code","dd","details","div","dl","dt","h4","li","ol","p","pre","span","strong","summary","table","tbody","td","th","thead","tr","u\
l"]),yf=new Set(["svg","title","rect","path","text"]),xf=new Set(["class","colspan","scope","role","tabindex","open","title","aria-hidden","aria-label","viewBox",
"width","height","preserveAspectRatio","x","y","rx","d","fill","fill-opacity","stroke","stroke-width","stroke-opacity","stroke-dasharray","opacity","data-event",
"data-depth","data-label","data-wide","font-family","font-size","font-weight","text-anchor"]);function vf(t){return typeof t=="string"?document.createTextNode(t):
U(t)}function U([t,e,...n]){let o=yf.has(t);if(!o&&!bf.has(t))throw new Error(`cudalens markup: the element ${t} is not known here`);let r=o?document.createElementNS(
Ve,t):document.createElement(t);for(let[s,a]of Object.entries(e))xf.has(s)&&r.setAttribute(s,a);return t==="h4"&&r.setAttribute("aria-level","3"),r.append(...n.
map(vf)),r}var Se="details.cg-fold",ks="details.cg-row";function As(t,e){let n={model:e,host:t,traced:null,paths:[]};t.replaceChildren(...e.body.map(U));let[o]=_(t,".cg-fr\
ame",HTMLElement);return o&&(o.querySelectorAll(".cg-stop, .cg-fold").length>1&&o.before(Mf(o)),o.addEventListener("keydown",r=>Af(r,o))),Tf(n),{trace:r=>Ss(n,r),
setTheme(){},destroy:()=>t.replaceChildren()}}function Mf(t){let e=(r,s)=>{for(let a of _(t,r,HTMLDetailsElement))a.open=s},n=(r,s)=>h("button",{type:"button",class:"\
cl-button",onclick:s},r),o=h("div",{class:"cg-tools",role:"group","aria-label":"Graph tree"});return t.querySelector(Se)&&o.append(n("Unfold all",()=>e(Se,!0))),
o.append(n("Open all",()=>e(ks,!0)),n("Close all",()=>{e(ks,!1),e(Se,!1)})),t.querySelector(".cg-stop.is-current")&&o.append(n("Go to current",()=>kf(t))),o}function kf(t){
let[e]=_(t,".cg-stop.is-current > .cg-row > summary",HTMLElement);e&&(Ts(e),e.focus({preventScroll:!0}),An(t,e))}function Ts(t){for(let e=t;e;e=e.parentElement)
e instanceof HTMLDetailsElement&&e.matches(Se)&&(e.open=!0)}function An(t,e){let n=e.getBoundingClientRect().top-t.getBoundingClientRect().top;(n<0||n+e.offsetHeight>
t.clientHeight)&&(t.scrollTop+=n-t.clientHeight/3)}function Af(t,e){let n=t.target;if(!(n instanceof HTMLElement)||n.tagName!=="SUMMARY"||t.ctrlKey||t.metaKey||
t.altKey)return;let o=_(e,"summary",HTMLElement).filter(i=>i.getClientRects().length),r=o.indexOf(n),s={ArrowDown:r+1,ArrowUp:r-1,Home:0,End:o.length-1},a=t.key===
"ArrowRight";if(t.key in s){let i=o[Math.min(Math.max(s[t.key],0),o.length-1)];i.focus({preventScroll:!0}),An(e,i)}else if(a||t.key==="ArrowLeft")n.parentElement?.
toggleAttribute("open",a);else return;t.preventDefault(),t.stopPropagation()}function Tf(t){let e=[...t.host.querySelectorAll(".cudalens-graph-paths li")].slice(
0,t.model.paths.length);t.paths=e.map((n,o)=>{let a=h("button",{type:"button","aria-pressed":"false",title:"Show this path in the tree",onclick:()=>Ss(t,t.traced===
o?null:o)});return a.append(...n.childNodes),n.replaceChildren(a),a})}function Ss(t,e){let{host:n,model:o,paths:r}=t;t.traced=e;for(let[c,l]of r.entries())l.setAttribute(
"aria-pressed",String(c===e));for(let c of n.querySelectorAll(".is-traced"))c.classList.remove("is-traced");let a=(e===null?[]:o.paths[e]??[]).flatMap(c=>_(n,`.\
cg-n${Number(c)}`,HTMLElement).slice(0,1));for(let c of a)c.classList.add("is-traced"),Ts(c);let[i]=_(n,".cg-frame",HTMLElement);a.length&&An(i,a[0])}function $t({clock:t},e){return t===null?e+1:e<0?0:t[e]}function _t({clock:t,data:e},n){return t!==null?Ee(t,n):Math.min(Math.max(Math.floor(n)-1,-1),e.numRows-
1)}function Ee(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function Ct({clock:t,data:e}){let n=t===null?e.numRows:t[e.numRows-
1]??0;return[0,Math.max(n*1.005,1)]}function ut(t,e){let[n,o]=t.view;return($t(t,e)-n)/(o-n)*t.width}var Lt=170,Sf=20,Y=18,Z=Lt-Sf,Es={light:{allocated:"#0b62c4",active:"#b35c00",reserved:"#6b7683",grid:"#e3e8ed",paper:"#ffffff",mark:"#b3261e",cursor:"#1b1f24",
range:"rgba(11,98,196,.14)"},dark:{allocated:"#6cb6ff",active:"#f0a050",reserved:"#9aa5b1",grid:"#2a3138",paper:"#111418",mark:"#ff8a80",cursor:"#e6e9ed",range:"\
rgba(108,182,255,.2)"}},Oe=["reserved","active","allocated"];function Ef(t,e){let n=Math.ceil(t.width),[o,r]=t.view,s={low:new Float64Array(n),high:new Float64Array(
n)},a=_t(t,o);for(let i=0;i<n;i++){let c=_t(t,o+(i+1)*(r-o)/n),[l,f]=[e[a+1],e[a+1]];for(let u=a+1;u<=c;u++){let d=e[u+1];d<l&&(l=d),d>f&&(f=d)}s.low[i]=l,s.high[i]=
f,a=c}return s}function Os(t){let{canvas:e,shown:n,width:o,ratio:r}=t;if(n===null)return;let s=N(e),a=getComputedStyle(e),i=Oe.map(u=>Ef(t,n.curves[u])),c=1;for(let{
high:u}of i)for(let d of u)d>c&&(c=d);let l=u=>Z-Math.max(u,0)/(c*1.04)*(Z-Y),f={context:s,colors:Es[t.theme],ink:a.color,y:l};s.setTransform(r,0,0,r,0,0),s.clearRect(
0,0,o,Lt),s.font=`11px ${a.fontFamily}`,_f(t,f,c),Lf(t,f),Oe.forEach((u,d)=>{Of(f,i[d],f.colors[u],u==="allocated")}),Cf(f,c);for(let u of n.marks)Rf(t,f,u);If(
t,f,n.peak)}function Of({context:t,y:e},{low:n,high:o},r,s){let a=o.length;Tn(t,r),t.beginPath(),t.moveTo(0,e(n[0]));for(let i=0;i<a;i++)t.lineTo(i+.5,e(o[i])),
o[i]!==n[i]&&t.lineTo(i+.5,e(n[i]));t.lineWidth=s?1.5:1.25,t.stroke(),s&&(t.lineTo(a,e(0)),t.lineTo(0,e(0)),t.globalAlpha=.14,t.fill(),t.globalAlpha=1)}function Tn(t,e){
t.strokeStyle=e,t.fillStyle=e}function $f(t){let e=10**Math.floor(Math.log10(Math.max(t,1e-9)));return[1,2,5,10].map(n=>n*e).find(n=>n>=t*.999)??10*e}function _f({
width:t},{context:e,colors:n,y:o},r){e.lineWidth=1,e.strokeStyle=n.grid,e.globalAlpha=1;for(let s of $s(r)){let a=Math.round(o(s))+.5;e.beginPath(),e.moveTo(0,a),
e.lineTo(t,a),e.stroke()}}function $s(t){let e=2**Math.floor(Math.log2(t/2.5));return Array.from({length:Math.floor(t*1.02/e)},(n,o)=>(o+1)*e)}function Cf({context:t,
colors:e,ink:n,y:o},r){t.textBaseline="bottom";for(let s of $s(r)){let a=Math.round(o(s))-.5,i=M(s);t.fillStyle=e.paper,t.fillRect(0,a-12,t.measureText(i).width+
6,12),t.fillStyle=n,t.fillText(i,3,a)}}function Lf({width:t,view:e,clock:n},{context:o,ink:r}){o.fillStyle=r;let s=Math.max($f((e[1]-e[0])/Math.max(t/130,2)),1);
o.textBaseline="top";for(let a=Math.ceil(e[0]/s)*s;a<=e[1];a+=s){let i=(a-e[0])/(e[1]-e[0])*t;o.beginPath(),o.moveTo(Math.round(i)+.5,Z),o.lineTo(Math.round(i)+
.5,Z+4),o.stroke();let c=a?x(a):"0",l=n===null?Math.round(a).toLocaleString("en-US"):c,f=o.measureText(l).width/2;o.fillText(l,Math.min(Math.max(i-f,0),t-2*f),Z+
6)}}function _s(t,e){let n=$t(t,e);return n>=t.view[0]&&n<=t.view[1]}function Rf(t,{context:e,colors:n,ink:o},{row:r,kind:s}){if(!_s(t,r))return;let a=ut(t,r),i=s===
"oom";Tn(e,i?n.mark:o),e.setLineDash(i?[]:[3,3]),e.beginPath(),e.moveTo(a,Y-2),e.lineTo(a,Z),e.stroke(),e.setLineDash([]),e.beginPath(),e.moveTo(a-5,Y-10),e.lineTo(
a+5,Y-10),e.lineTo(a,Y-2),e.fill()}function If(t,{context:e,colors:n,y:o},{row:r,bytes:s}){if(!_s(t,r))return;let[a,i]=[Math.max(ut(t,r),3),o(s)];e.fillStyle=n.
allocated,e.beginPath(),e.arc(a,i,4,0,7),e.fill();let c=`peak ${M(s)}`;e.font=`600 ${e.font}`;let l=e.measureText(c).width+8;e.textBaseline="bottom",e.fillText(
c,a+l>t.width?a-l:a+7,Y-3)}function Sn(t){let e=N(t.over),n=Es[t.theme];e.setTransform(t.ratio,0,0,t.ratio,0,0),e.clearRect(0,0,t.width,Lt);let o=ut(t,t.row);if(t.
since!==null){let r=ut(t,t.since);e.fillStyle=n.range,e.fillRect(Math.min(r,o),Y-4,Math.abs(o-r),Z-Y+4)}Tn(e,n.cursor),e.lineWidth=1.5,e.beginPath(),e.moveTo(o,
Y-6),e.lineTo(o,Z),e.stroke(),e.beginPath(),e.arc(o,Z,3.5,0,7),e.fill()}function Rs(t,e,n){let o=Nf(t,e,n),{canvas:r,over:s,tip:a}=o;return t.replaceChildren(h("div",{class:"mm-curve-stage"},r,s),a),Pf(o),{show(i,c,l){o.shown={curves:i,
peak:c,marks:l},Cs(o)},setMoment(i,c){Object.assign(o,{row:i,since:c}),r.setAttribute("aria-valuenow",String(i)),r.setAttribute("aria-valuetext",J(e,i)),o.shown&&
Sn(o)},setAxis(i){o.clock=i?e.clock:null,$e(o,Ct(o))},zoomTo:i=>$e(o,i??Ct(o)),getView:()=>o.view,xOf:i=>ut(o,i),setTheme(i){o.theme=i,o.shown&&On(o)},resize(){
o.shown&&t.clientWidth!==o.width&&Cs(o)},stats:()=>({script:o.script}),destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function Nf(t,e,n){let{clock:o,
numRows:r}=e,s=h("canvas",{class:"mm-curve-canvas",tabindex:0,role:"slider","aria-label":"Moment of the history","aria-valuemin":-1,"aria-valuemax":r-1,"aria-va\
luenow":r-1});return{data:e,options:n,host:t,canvas:s,over:h("canvas",{class:"mm-over","aria-hidden":"true"}),tip:h("div",{class:"mm-tip",hidden:!0}),theme:n.theme,
clock:o,view:Ct({clock:o,data:e}),shown:null,row:r-1,since:null,pointer:null,width:0,ratio:1,pending:0,script:[]}}function J(t,e){if(e<0)return"before the first\
 action";let n=`action ${(e+1).toLocaleString("en-US")} of ${t.numRows.toLocaleString("en-US")}`;return t.clock?`${x(t.clock[e])}, ${n}`:n}function Cs(t){t.width=
Math.max(t.host.clientWidth||t.width,160),t.ratio=Math.min(devicePixelRatio||1,2);for(let e of[t.canvas,t.over])e.width=Math.floor(t.width*t.ratio),e.height=Math.
floor(Lt*t.ratio),e.style.width=`${t.width}px`,e.style.height=`${Lt}px`;On(t)}function $e(t,[e,n]){let[,o]=Ct(t),r=Math.min(Math.max(n-e,t.clock===null?4:100),o),
s=Math.min(Math.max(e,0),o-r);t.view=[s,s+r],On(t)}function On(t){t.pending||(t.pending=requestAnimationFrame(()=>{if(t.pending=0,!t.shown)return;let e=performance.
now();Os(t),Sn(t),t.script.push(performance.now()-e)}))}function _e({data:t,options:e},n,o){let r=Math.min(Math.max(n,-1),t.numRows-1);e.onMoment(r,o===r?null:o)}
function $n({canvas:t},e){return e.clientX-t.getBoundingClientRect().left}function Ls(t,e){let[n,o]=t.view;return _t(t,n+$n(t,e)/t.width*(o-n))}function Pf(t){let{
canvas:e}=t,n=()=>{t.pointer=null};e.addEventListener("pointerdown",o=>{o.button!==0||!t.shown||(t.pointer={x:o.clientX,row:Ls(t,o)},e.setPointerCapture(o.pointerId),
_e(t,t.pointer.row,null))}),e.addEventListener("pointermove",o=>{if(!t.shown)return;let r=Ls(t,o);Ff(t,t.shown.curves,o,r);let{pointer:s}=t;!s||Math.abs(o.clientX-
s.x)<3||_e(t,Math.max(r,s.row),Math.min(r,s.row))}),e.addEventListener("pointerup",n),e.addEventListener("pointercancel",n),e.addEventListener("pointerleave",()=>{
t.tip.hidden=!0}),e.addEventListener("wheel",o=>Hf(t,o),{passive:!1}),e.addEventListener("keydown",o=>{o.altKey||o.ctrlKey||o.metaKey||!Df(t,o)||(o.preventDefault(),
o.stopPropagation())})}function Hf(t,e){(e.ctrlKey||e.metaKey)&&(e.preventDefault(),En(t,Math.exp(e.deltaY/200),$n(t,e)/t.width))}function En(t,e,n){let[o,r]=t.
view,s=o+(r-o)*n;$e(t,[s-(s-o)*e,s+(r-s)*e])}function Ff(t,e,n,o){let{tip:r}=t,s=Oe.map(a=>`${a} ${M(e[a][o+1])}`);r.replaceChildren(...[J(t.data,o),...s].map(a=>h(
"div",{},a))),r.hidden=!1,r.style.left=`${Math.max(Math.min($n(t,n)+14,t.width-r.offsetWidth-4),0)}px`,r.style.top="24px"}function zf(t,e){let{data:n,row:o,view:r,
width:s,shown:a}=t,i=c=>{let l=_t(t,$t(t,o)+c*(r[1]-r[0])/s);return l===o?o+Math.sign(c):l};return e==="ArrowRight"?i(1):e==="ArrowLeft"?i(-1):e==="PageDown"?i(
s/10):e==="PageUp"?i(-s/10):e==="Home"?-1:e==="End"?n.numRows-1:e.toLowerCase()==="p"&&a?a.peak.row:null}function Df(t,e){let{row:n,since:o,view:r}=t,s=zf(t,e.key);
if(s!==null)_e(t,s,e.shiftKey?o??Math.min(n,s):null);else if(e.key==="+"||e.key==="=")En(t,1/1.6,($t(t,n)-r[0])/(r[1]-r[0]));else if(e.key==="-")En(t,1.6,.5);else if(e.
key==="0")$e(t,Ct(t));else if(e.key==="Escape"&&o!==null)_e(t,n,null);else return!1;return!0}var _n=2147483647;async function qt(t,e,n){let o=await Promise.all(n.map(r=>F(t,`${e}.${r}`)));return Object.fromEntries(n.map((r,s)=>[r,o[s]]))}function Vt(t){
let e=new Float64Array(t.length),n=0;for(let o=0;o<t.length;o++)n+=t[o],e[o]=n;return e}var Uf=["addr","device","pool","units","is_asked","spare","alloc","relea\
sed","done","stack","category","block","facts"];async function Bf(t,e){let[n,o]=await Promise.all([qt(t,"allocation",Uf),F(t,"addr.steps")]),r=Vt(o),s=n.addr.length,
a=Float64Array.from(n.units,f=>f*e.unit),i=Int32Array.from(Vt(n.alloc),f=>f-1),c=i.map((f,u)=>n.released[u]?f+n.released[u]-1:_n),l=i.map((f,u)=>n.done[u]?(n.released[u]?
c[u]:f)+n.done[u]-1:_n);return{n:s,addr:Float64Array.from(n.addr,f=>r[f]),bytes:a,requested:a.map((f,u)=>n.is_asked[u]?f-n.spare[u]:Number.NaN),device:n.device,
pool:n.pool,category:n.category,facts:n.facts,alloc:i,released:c,done:l,stack:Int32Array.from(n.stack,f=>f-1),block:Int32Array.from(Vt(n.block),f=>f-1),byAddress:Wf(
n.addr,r.length)}}function Wf(t,e){let n=new Uint32Array(e+1);for(let r=0;r<t.length;r++)n[t[r]+1]++;for(let r=0;r<e;r++)n[r+1]+=n[r];let o=new Int32Array(t.length);
for(let r=0;r<t.length;r++)o[n[t[r]]++]=r;return o}var Gf=["addr","device","pool","units","added","removed","kind","grows"];async function Kf(t,e){let{addr:n,units:o,
added:r,removed:s,device:a,pool:i,kind:c,grows:l}=await qt(t,"piece",Gf);return{n:n.length,addr:Vt(n),bytes:Float64Array.from(o,f=>f*e.piece_unit),added:Int32Array.
from(r,f=>f-1),removed:Int32Array.from(s,f=>f?f-2:_n),device:a,pool:i,kind:c,grows:l}}async function jf(t){let[e,n,o,r]=await Promise.all([qt(t,"frame",["file",
"line","function"]),qt(t,"stack",["sizes","frames"]),Q(t,"files"),Q(t,"functions")]),s=Vt(n.sizes);return{n:n.sizes.length,numFrames:e.line.length,frameAt:a=>({
file:o[e.file[a]],line:e.line[a]-1,name:r[e.function[a]]}),idsOf:a=>n.frames.subarray(s[a]-n.sizes[a],s[a])}}async function Xf(t,e){let n=await F(t,"clock.steps");
if(!e.has_times)return null;let o=new Float64Array(e.num_rows);for(let r=1;r<o.length;r++)o[r]=o[r-1]+n[r-1]*e.time_unit;return o}function Ce({file:t,line:e,name:n}){
let o=t?`${t.split(/[\\/]/).at(-1)}${e>=0?`:${e}`:""}`:"";return[n||"?",o].filter(Boolean).join(" ")}async function Is(t){let e=await oe(t),{header:n}=e,[o,r,s,
a,i,c]=await Promise.all([Bf(e,n),Kf(e,n),jf(e),qt(e,"rest",["allocated","active"]),Xf(e,n),Q(e,"facts")]);return{header:n,numRows:n.num_rows,allocations:o,pieces:r,
stacks:s,facts:c.map(l=>l?JSON.parse(l):{}),clock:i,rest:a}}var Vf=[["category","category"],["stack","call stack"],["pool","pool and stream"],["names","variable"],["cell","cell"]];function Rt({stream:t,pool:e,graphs:n}){
let[o,r]=e,a=!o&&!r?"default pool":`private pool (${o??"?"}, ${r??"?"})`,i=n.length?` of ${n.join(", ")}`:"";return`${a}${i}, stream ${t??"not recorded"}`}function Cn({
stacks:t},e){if(e<0)return"stack not recorded";let n=[...t.idsOf(e)].map(t.frameAt),o=n.find(qf)??n.find(({file:r})=>r.endsWith(".py"))??n[0];return o?Ce(o):"st\
ack not recorded"}function qf({file:t,name:e}){return(t.endsWith(".py")||t.startsWith("In[")||t.startsWith("<"))&&!/[\\/](torch|site-packages|dist-packages)[\\/]/.
test(t)&&e!==""}function Le({facts:t}){let e=n=>t.some(o=>n in o);return Vf.filter(([n])=>n!=="names"&&n!=="cell"||e(n))}function Re({allocations:t,facts:e},n){
let o=t.facts[n];return o?e[o-1]:{}}function It(t,e){let{names:n}=Re(t,e);if(!n)return[];try{return JSON.parse(n).map(String)}catch{return[n]}}function Ln(t,e,n){
return n==="names"?It(t,e)[0]??"":n==="cell"?Re(t,e).cell??"":t.allocations[n][e]}function Yf(t,e,n){let{categories:o,pools:r}=t.header;if(n==="names")return String(
e)||"no variable";if(n==="cell")return String(e)||"not recorded";let s=Number(e);return n==="stack"?Cn(t,s):n==="pool"?Rt(r[s]):s?o[s-1]:"not known"}function Yt(t,e,n){
let o=new Map;for(let r of e){let s=Ln(t,r,n),a=o.get(s)??{key:s,label:Yf(t,s,n),bytes:0,num:0};a.bytes+=t.allocations.bytes[r],a.num+=1,o.set(s,a)}return[...o.
values()].sort((r,s)=>s.bytes-r.bytes)}var Ns=25;function Ps(t,e,n,o){let r=Yt(e,n,o.by),s=Hs(r),i=[Le(e).find(([u])=>u===o.by)?.[1]??o.by,"held","share","blocks"].map(u=>h("th",{scope:"col"},u)),c=r.
slice(0,Ns).map(u=>Jf(e,u,s,o)),l=h("table",{class:"mm-table"},h("thead",{},h("tr",{},...i)),h("tbody",{},...c)),f=Zf(r);t.replaceChildren(l,...f?[h("p",{class:"\
cl-hint"},f)]:[])}function Hs(t){return t.reduce((e,{bytes:n})=>e+n,0)}function Zf(t){if(!t.length)return"Nothing was in use.";let e=t.slice(Ns);return e.length?
`and ${O(e.length)} more with ${M(Hs(e))}`:""}function Jf(t,{key:e,label:n,bytes:o,num:r},s,{by:a,picked:i,onPick:c}){let l=i===e,f=s?100*o/s:0,u=h("span",{class:"\
mm-fill"});u.style.width=`${f}%`;let d=a==="stack"?Number(e):-1,p=h("tr",{tabindex:0,"data-picked":l,"aria-pressed":String(l),role:"button",title:d>=0?Rn(t,d).join(
`
`):null},h("td",{class:"mm-name"},u,h("span",{},n)),h("td",{},M(o)),h("td",{},R(f)),h("td",{},O(r))),g=()=>c(l?null:e);return p.addEventListener("click",g),p.addEventListener(
"keydown",m=>{m.key!=="Enter"&&m.key!==" "||(m.preventDefault(),g())}),p}function Rn({stacks:t},e){return[...t.idsOf(e)].map(n=>{let{file:o,line:r,name:s}=t.frameAt(
n);return`${o}${r>=0?`:${r}`:""} ${s||"?"}`.trim()})}function Fs(t,e,{strip:n,allocation:o,bytes:r}){let{allocations:s,header:a}=t,i=e.strips[n],c=Rt(a.pools[i.pool]);if(o<0)return[`free, ${M(r)}`,i.used?"a gap be\
tween blocks":"an empty segment",c];let l=It(t,o).slice(0,3).join(", "),f=s.released[o]<=e.row;return[[l,M(s.bytes[o]),zs(t,o)].filter(Boolean).join(" \xB7 "),f?
"freed, waits for a stream":"",Cn(t,s.stack[o]),c].filter(Boolean)}function zs({allocations:t,header:e},n){let o=t.category[n];return o?e.categories[o-1]:null}function Ds(t,e,n,o){
if(t.hidden=!o,!o)return;let r=o.allocation<0,a=(r?Qf(e,n,o):tu(e,n,o)).filter(([,l])=>l!=null&&l!=="").flatMap(([l,f])=>[h("dt",{},l),h("dd",{},String(f))]),i=r?
-1:e.allocations.stack[o.allocation],c=i>=0?Rn(e,i):[];t.replaceChildren(h("h4",{"aria-level":3},r?"Free memory":"Block"),h("dl",{class:"cl-facts"},...a),...c.length?
[h("h4",{"aria-level":3},"Allocated by"),h("pre",{class:"mm-stack"},c.join(`
`))]:[])}function Nn({header:t},e){return`0x${(BigInt(t.base)+BigInt(Math.round(e))).toString(16)}`}function In(t){return`${M(t)} (${O(t)} bytes)`}function Us(t,e,n){
let o=e.strips[n.strip],r=`${M(o.bytes)} at ${Nn(t,o.addr)}`;return[["pool",Rt(t.header.pools[o.pool])],["segment",`${r}${o.grows?", expandable":""}`],["segment\
 in use",R(100*o.used/o.bytes)]]}function Qf(t,e,n){return[["size",In(n.bytes)],["address",Nn(t,n.from)],...Us(t,e,n)]}function tu(t,e,n){let{allocation:o}=n,{bytes:r,
requested:s,released:a,addr:i}=t.allocations,{cell:c,num_tensors:l,graph:f,user_metadata:u}=Re(t,o),d=s[o];return[["held by",It(t,o).join(", ")],["size",In(r[o])],
["asked for",Number.isNaN(d)?null:In(d)],["state",a[o]<=e.row?"freed, waits for a stream":"in use"],["category",zs(t,o)??"not known"],...eu(t,e,o),["cell",c],["\
live tensors",l],["graphs",f],["metadata",u],["address",Nn(t,i[o])],...Us(t,e,n)]}function eu(t,e,n){let{allocations:o,clock:r,numRows:s}=t,[a,i]=[o.alloc[n],o.
done[n]];return[["allocated",a<0?"before the history":J(t,a)],["age",a>=0&&r?x(r[Math.max(e.row,0)]-r[a]):null],["freed",i<s?J(t,i):null]]}function Bs(t,e){let n=nu(t,e),{allocated_bytes:o,active_bytes:r,reserved_bytes:s}=t.header.devices[e];return{allocated:Pn(n.allocated,o),active:Pn(n.active,r),
reserved:Pn(n.reserved,s)}}function nu({allocations:t,pieces:e,numRows:n,header:o,rest:r},s){let[a,i,c]=[0,1,2].map(()=>new Float64Array(n+1)),l=(u,d,p)=>{d>=0&&
d<n&&(u[d+1]+=p)};for(let u=0;u<t.n;u++){if(t.device[u]!==s)continue;let d=t.bytes[u];l(i,t.alloc[u],d),l(i,t.done[u],-d),l(a,t.alloc[u],d),l(a,t.released[u],-d)}
for(let u=0;u<e.n;u++)e.device[u]===s&&(l(c,e.added[u],e.bytes[u]),l(c,e.removed[u],-e.bytes[u]));let f=r.active.length/Math.max(o.devices.length,1);for(let u=0;u<
f;u++){let d=Math.min((u+1)*o.hidden.stretch,n)-1;l(a,d,r.allocated[s*f+u]),l(i,d,r.active[s*f+u])}return{allocated:a,active:i,reserved:c}}function Pn(t,e){let n=e-
t.reduce((o,r)=>o+r,0);for(let o=0;o<t.length;o++)n+=t[o],t[o]=n;return t}function Ws(t){let e=0;for(let n=1;n<t.length;n++)t[n]>t[e]&&(e=n);return e-1}function Gs(t){let e={parent:[-1],frame:[-1],depth:[0],leaf:new Int32Array(t.n)},n=new Map;for(let o=0;o<t.n;o++){let r=t.idsOf(o),s=0;for(let a=r.length-1;a>=0;a--){
let i=s*t.numFrames+r[a],c=n.get(i);c===void 0&&(c=e.parent.length,n.set(i,c),e.parent.push(s),e.frame.push(r[a]),e.depth.push(e.depth[s]+1)),s=c}e.leaf[o]=s}return e}
function Ks(t,e,n){let o=t.parent.length,[r,s]=[new Float64Array(o),new Float64Array(o)];for(let a of n){let i=e.stack[a]<0?0:t.leaf[e.stack[a]];r[i]+=e.bytes[a],
s[i]+=1}for(let a=o-1;a>0;a--)r[t.parent[a]]+=r[a],s[t.parent[a]]+=s[a];return{bytes:r,num:s}}function js(t){let e=t.parent.map(()=>[]);for(let n=1;n<t.parent.length;n++)
e[t.parent[n]].push(n);return e}function Vs(t,e,n){let o=e.stacks.n?Gs(e.stacks):null,r=o?o.parent.length:-1,s=o?{...o,parent:[...o.parent,0],depth:[...o.depth,1]}:null,a=s?js(s):[],i=l=>l&&o&&
l!==r?e.stacks.frameAt(o.frame[l]):null,c=Te(t,{theme:n.theme,label:"Bytes by call stack",placeholder:"Search functions and files",searchLabel:"Search call stac\
ks",textOf(l){let f=i(l);return f?Ce(f):l?"no call stack":"all"},amountOf:(l,f)=>`${M(l)} (%) in ${$(f,"block")}`,format:M,notesOf:l=>[i(l)?.file??""],onZoom(l){
!l||!o?n.onZoom(null):n.onZoom(l===r?f=>f<0:ou(o,l))}});return{...c,get root(){return c.root},get graph(){return c.graph},show(l){if(!o||!s)return;let{bytes:f,num:u}=Ks(
o,e.allocations,l),{parent:d,depth:p}=s;c.show({parent:d,depth:p,children:a,weight:Xs(f,a[0]),num:Xs(u,a[0])})}}}function Xs(t,e){let n=e.slice(0,-1).reduce((r,s)=>r+
t[s],0),o=new Float64Array(t.length+1);return o.set(t),o[t.length]=t[0]-n,o}function ou(t,e){let n=Uint8Array.from(t.leaf,o=>ru(t,o,e)?1:0);return o=>o>=0&&n[o]===
1}function ru({parent:t},e,n){for(let o=e;o>=0;o=t[o])if(o===n)return!0;return!1}var su=[{key:"requested",label:"asked for",meaning:"what programs asked for, of blocks in use",bytesOf:t=>t.active-t.internal},{key:"internal",label:"rounding",
meaning:"blocks in use that are larger than what was asked for",bytesOf:t=>t.internal},{key:"external",label:"gaps",meaning:"free memory in segments that hold s\
omething: it fits only what is small enough",bytesOf:t=>t.external},{key:"empty",label:"cached",meaning:"segments in which nothing is in use; torch.cuda.empty_c\
ache() returns them",bytesOf:t=>t.empty}];function qs(t,{sums:e}){let n=su.map(s=>({...s,bytes:s.bytesOf(e)})),o=n.filter(({bytes:s})=>s>0).map(au),r=n.map(({key:s,
label:a,meaning:i,bytes:c})=>h("span",{class:"mm-key",title:i},h("i",{class:`mm-is-${s}`}),`${a} ${M(c)} (${R(Ys(e,c))})`));t.replaceChildren(h("p",{},iu(e)),h(
"div",{class:"mm-bar",role:"img","aria-label":"Reserved memory by use"},...o),h("p",{class:"mm-legend"},...r))}function au({key:t,label:e,bytes:n}){let o=h("spa\
n",{class:`mm-part mm-is-${t}`,title:`${e}: ${M(n)}`});return o.style.flexGrow=String(n),o}function Ys({reserved:t},e){return t?100*e/t:0}function iu(t){if(!t.reserved)
return"No memory was reserved.";let e=R(Ys(t,t.internal+t.external)),n=M(t.largest);return`Fragmentation ${e} of ${M(t.reserved)} reserved; the largest block th\
at fits without new memory is ${n}.`}var dt=["#0072b2","#e69f00","#009e73","#cc79a7","#56b4e9","#d55e00","#b8a400","#7a5cc4","#8c6d46","#3fb8a0","#c2476b"],Ie={light:"#9aa4af",dark:"#6f7b87"},cu={light:[
"#fde08a","#f5ae4d","#e0733f","#b3404f","#7b2764","#421a5c"],dark:["#fff1b8","#fbc15e","#f08a4b","#d2555f","#a04a8f","#6d4fb0"]},Js={light:{gap:[238,241,245],hatch:[
188,197,207],dim:[214,220,227]},dark:{gap:[33,39,46],hatch:[73,84,96],dim:[52,60,69]}},Qs={category:"Category",stream:"Stream",age:"Age",stack:"Call stack"},lu={
category:uu,stream:du,age:hu,stack:pu};function Nt([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}function ta(t,e,n,o){let r=lu[n](t,e,o),s=r.css.map(vt);return{...r,
rgb:s,pixels:Uint32Array.from(s,Nt),edges:Uint32Array.from(s,a=>Nt(fu(a,o)))}}function fu(t,e){let n=e==="dark"?0:255,[o,r,s]=t.map(a=>Math.round(a+(n-a)*.45));
return[o,r,s]}function uu(t,e,n){let{categories:o}=t.header,r=[Ie[n],...o.map((a,i)=>dt[i%dt.length])],s=Yt(t,e.allocations,"category");return{css:r,of:a=>t.allocations.
category[a],legend:s.map(({key:a,label:i})=>({css:r[Number(a)],label:i}))}}function du({header:t,allocations:e},n,o){let r=[...new Set(t.pools.map(({stream:c})=>c))];
r.sort((c,l)=>(c??1/0)-(l??1/0));let s=[Ie[o],...r.map((c,l)=>dt[l%dt.length])],a=t.pools.map(({stream:c})=>c===null?0:1+r.indexOf(c)),i=[...new Set(n.strips.map(
({pool:c})=>a[c]))].sort((c,l)=>c-l);return{css:s,of:c=>a[e.pool[c]],legend:i.map(c=>({css:s[c],label:c?`stream ${r[c-1]}`:"stream not recorded"}))}}var Zs=4;function hu({
allocations:t,clock:e},n,o){let{alloc:r}=t,s=cu[o],a=[Ie[o],...s],i=u=>e?e[Math.max(n.row,0)]-e[r[u]]:n.row-r[u],c=1;for(let u of n.allocations)r[u]>=0&&(c=Math.
max(c,i(u)));let l=u=>{if(r[u]<0)return 0;let d=Math.floor(Math.log(c/Math.max(i(u),c*1e-9))/Math.log(Zs));return s.length-Math.min(Math.max(d,0),s.length-1)},f=s.
map((u,d)=>{let p=c/Zs**(s.length-1-d),g=e?x(p):`${Math.round(p).toLocaleString("en-US")} actions`;return{css:u,label:`up to ${g}`}});return n.allocations.some(
u=>r[u]<0)&&f.push({css:a[0],label:"older than the recording"}),{css:a,of:l,legend:f}}function pu(t,e,n){let o=Yt(t,e.allocations,"stack"),r=o.filter(({key:c})=>Number(
c)>=0).slice(0,dt.length),s=new Map(r.map(({key:c},l)=>[Number(c),l+1])),a=Ie[n],i=r.map(({label:c},l)=>({css:dt[l],label:c}));return o.length>r.length&&i.push(
{css:a,label:"all others"}),{css:[a,...dt],of:c=>s.get(t.allocations.stack[c])??0,legend:i}}var ea=1.6;function na(t,e){let{data:n}=t,o=h("div",{class:"mm-curve"}),r=h("div",{class:"mm-map"}),s=h("aside",{class:"mm-details","aria-label":"Chosen block",
hidden:!0}),a=h("p",{class:"mm-moment","aria-live":"polite"}),i=h("p",{class:"mm-legend"}),c=h("div",{class:"mm-fragmentation"}),l=h("div",{class:"mm-holders"}),
f=h("div",{class:"mm-flame"}),u=mu(t,e),d=q("Colour",gu(),t.color,e.onColor),p=q("By",Le(n),t.by,e.onGrouping);return{all:[...n.header.devices.length>1?[u.group]:
[],...n.numRows?[wu(n.clock!==null,e),o,bu()]:[],a,...xu(n.header),c,h("div",{class:"mm-tools"},d.group,yu(e)),i,h("div",{class:"mm-columns"},r,s),h("div",{class:"\
mm-tools"},h("h4",{"aria-level":3},"Who holds it"),p.group),l,...n.stacks.n?[h("h4",{"aria-level":3},"Bytes by call stack"),f]:[]],curve:o,map:r,details:s,moment:a,
legend:i,bar:c,holders:l,flame:f,devices:u,colors:d}}function mu({data:t,device:e},{onDevice:n}){let o=t.header.devices.map(({label:r},s)=>[String(s),r]);return q(
"Device",o,String(e),r=>n(Number(r)))}function gu(){return Object.entries(Qs).map(([e,n])=>[e,n.toLowerCase()])}function wu(t,{onAxis:e,onPeak:n,onEnd:o}){let r=[
["time","time"],["action","actions"]],s=h("div",{class:"mm-choice",role:"group","aria-label":"Moment"},et("At the peak","Show the moment of the peak",n),et("At \
the end","Show the last moment",o)),a=t?q("Axis",r,"time",i=>e(i==="time")).group:null;return h("div",{class:"mm-tools"},is(),a,s)}function bu(){return h("p",{class:"\
cl-hint"},"Click or drag along the curve to see what was there then.")}function yu({onZoom:t,onFit:e}){return h("div",{class:"mm-choice",role:"group","aria-labe\
l":"Zoom of the map"},et("\u2212","Zoom out",()=>t(1/ea)),et("+","Zoom in",()=>t(ea)),et("fit","Show all",e))}function xu({hidden:t}){if(!t.num)return[];let e=`${$(
t.num,"small allocation")} (${M(t.bytes)} together)`;return[h("p",{class:"cl-hint"},`${e} are in the curve and not in the map.`)]}function oa(t,e,n){let o=e.map(
({css:a,label:i})=>{let c=h("i",{});return c.style.background=a,h("span",{class:"mm-key",title:i},c,i)}),r=h("span",{class:"mm-key"},h("i",{class:"mm-waits"}),"\
waits for a stream"),s=h("span",{class:"mm-key"},h("i",{class:"mm-free"}),"free");t.replaceChildren(...o,...n?[r]:[],s)}function Hn(t,e,n){let{allocations:o}=t,r=Mu(o,e,n),s=vu(t.pieces,e,n),a=ku(o,r,s);Au(a,o,r,n),n===t.numRows-1&&Tu(a,t,e);let i=s.reduce((c,{first:l,end:f})=>c+
f-l,0);return{device:e,row:n,allocations:r,strips:s,sums:a,outside:r.length-i}}function vu(t,e,n){let o=[];for(let r=0;r<t.n;r++){if(t.device[r]!==e||t.added[r]>
n||t.removed[r]<=n)continue;let[s,a,i,c]=[t.addr[r],t.bytes[r],t.pool[r],t.kind[r]],l=o.at(-1);l&&l.pool===i&&l.addr+l.bytes===s&&t.grows[r]&&l.grows?l.bytes+=a:
o.push({addr:s,bytes:a,pool:i,kind:c,grows:t.grows[r],first:0,end:0,used:0})}return o}function Mu(t,e,n){let o=new Int32Array(t.n),r=0;for(let s=0;s<t.n;s++){let a=t.
byAddress[s];t.alloc[a]<=n&&n<t.done[a]&&t.device[a]===e&&(o[r++]=a)}return o.slice(0,r)}function ku(t,e,n){let o={reserved:0,active:0,allocated:0,pending:0,internal:0,
external:0,empty:0,largest:0},r=0;for(let s of n){let a=s.addr+s.bytes;for(;r<e.length&&t.addr[e[r]]<s.addr;)r++;s.first=r;let i=s.addr,c=0;for(;r<e.length&&t.addr[e[r]]<
a;r++){let l=e[r];c=Math.max(c,t.addr[l]-i),i=t.addr[l]+t.bytes[l],s.used+=t.bytes[l]}s.end=r,o.reserved+=s.bytes,o.largest=Math.max(o.largest,c,a-i),o[s.used?"\
external":"empty"]+=Math.max(s.bytes-s.used,0)}return o}function Au(t,{bytes:e,released:n,requested:o},r,s){for(let a of r)t.active+=e[a],n[a]<=s?t.pending+=e[a]:
t.allocated+=e[a],Number.isNaN(o[a])||(t.internal+=e[a]-o[a])}function Tu(t,{header:e},n){let{end:o,allocated_bytes:r,active_bytes:s,reserved_bytes:a}=e.devices[n];
Object.assign(t,o??{},{allocated:r,active:s,reserved:a}),t.pending=t.active-t.allocated}var ot=16,Fn=14,Ne=22,Su=[""," \xB7 small blocks"," \xB7 large blocks"];function zn(t,e){let n=new Map;return e.strips.forEach((o,r)=>{let s=`${o.pool}/${o.kind}`,
a=n.get(s)??{strips:[],bytes:0,used:0,pool:o.pool,kind:o.kind,label:Rt(t.header.pools[o.pool])+Su[o.kind]};a.strips.push(r),a.bytes+=o.bytes,a.used+=o.used,n.set(
s,a)}),[...n.values()].sort((o,r)=>o.pool-r.pool||r.kind-o.kind)}function Dn(t,e,n,o){let r=n*o,s=[],a=[],i={strip:[],from:[],bytes:[],x:[]},c=0,l=()=>{a.push({
y:c,first:i.strip.length,end:i.strip.length}),c+=ot},f=(u,d,p,g)=>{i.strip.push(u),i.from.push(d),i.bytes.push(p),i.x.push(g/o),a[a.length-1].end=i.strip.length};
for(let u of e){s.push({y:c,group:u}),c+=Ne,l();let d=0;for(let p of u.strips){let{bytes:g}=t.strips[p];d>0&&d+g>r&&(l(),d=0);for(let w=0;w<g;w+=r)w>0&&l(),f(p,
w,Math.min(r,g-w),d);let m=g>r?r:g;d+=m+Eu(g/o)*o}c+=4}return{heads:s,lines:a,part:i,height:c,width:n,bytesPerPx:o}}function Eu(t){return t>=12?3:t>=4?1:0}function ra(t,e,n,o){
let r=Math.max(...e.map(i=>i.bytes),1),[s,a]=[r/n/4096,r*1.5/n];for(let i=0;i<24;i++){let c=Math.sqrt(s*a);Dn(t,e,n,c).height>o?s=c:a=c}return a}function Zt(t,e){
let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r].y<=e?n=r+1:o=r}return n-1}function Un(t,e,n,o,r){let[s,a]=[n,o];for(;s<a;){let i=s+a>>1;t.addr[e[i]]+t.bytes[e[i]]<=
r?s=i+1:a=i}return s}function Jt(t,e,n,o,r){let s=Zt(n.lines,r);if(s<0||r>n.lines[s].y+ot)return null;let{part:a}=n;for(let i=n.lines[s].first;i<n.lines[s].end;i++){
let c=a.bytes[i]/n.bytesPerPx;if(o<a.x[i]||o>=a.x[i]+Math.max(c,1))continue;let l=e.strips[a.strip[i]];return Qt(t,e,a.strip[i],l.addr+a.from[i]+(o-a.x[i])*n.bytesPerPx)}
return null}function Qt(t,e,n,o){let{allocations:r}=t,s=e.strips[n],a=Un(r,e.allocations,s.first,s.end,o),i=a<s.end?e.allocations[a]:-1;if(i>=0&&r.addr[i]<=o)return{
strip:n,allocation:i,from:r.addr[i],bytes:r.bytes[i]};let c=a>s.first?e.allocations[a-1]:-1,l=c<0?s.addr:r.addr[c]+r.bytes[c];return{strip:n,allocation:-1,from:l,
bytes:(i<0?s.addr+s.bytes:r.addr[i])-l}}function ht(t,e,{strip:n,from:o,bytes:r}){let{part:s,lines:a,bytesPerPx:i}=e,c=o-t.strips[n].addr,l=[],f=s.strip.indexOf(
n),u=0;for(;f>=0&&f<s.strip.length&&s.strip[f]===n;f++){let[d,p]=[Math.max(c,s.from[f]),Math.min(c+r,s.from[f]+s.bytes[f])];if(!(d>=p)){for(;a[u].end<=f;)u++;l.
push({x:s.x[f]+(d-s.from[f])/i,y:a[u].y,width:(p-d)/i,height:Fn})}}return l}var Ou=6,[Bn,sa,$u]=[0,1,2],Wn=0,_u=64,Cu=.75,Lu=400;function aa(t,e){let{layout:n,top:o,height:r,ratio:s}=e,a=Ru(e),i=Math.floor(r*s),c=new ImageData(Math.max(
a.width,1),Math.max(i,1)),l=new Uint32Array(c.data.buffer),f=[],u=Math.max(Zt(n.lines,o),0);for(let d=u;d<n.lines.length&&n.lines[d].y<o+r;d++){let p=n.lines[d];
Iu(e,a,p,f),Hu(l,a,Math.round((p.y-o)*s),Math.round(Fn*s),i)}t.putImageData(c,0,0),t.save(),t.scale(s,s),t.textBaseline="middle",Fu(t,e),zu(t,e,f),t.restore()}function Ru({
layout:t,theme:e,ratio:n}){let o=Math.floor(t.width*n),{gap:r,hatch:s,dim:a}=Js[e];return{width:o,line:new Uint32Array(o),kind:new Uint8Array(o),weight:new Float32Array(
o),gap:Nt(r),hatch:Nt(s),dim:Nt(a)}}function Iu(t,e,n,o){e.line.fill(Wn),e.kind.fill(Bn),e.weight.fill(0);for(let r=n.first;r<n.end;r++)Nu(t,e,r,n.y,o)}function Nu(t,e,n,o,r){
let{data:s,moment:a,layout:i,ratio:c}=t,{addr:l,bytes:f}=s.allocations,{part:u}=i,d=a.strips[u.strip[n]],p=c/i.bytesPerPx,g=u.x[n]*c,[m,w]=[d.addr+u.from[n],u.bytes[n]],
y=Math.min(Math.max(Math.round(g+w*p),Math.round(g)+1),e.width);e.line.fill(e.gap,Math.round(g),y),e.kind.fill(sa,Math.round(g),y);let b=Un(s.allocations,a.allocations,
d.first,d.end,m);for(let v=b;v<d.end;v++){let I=a.allocations[v],L=l[I]-m;if(L>=w)break;let P=g+Math.max(L,0)*p,wt=g+Math.min(L+f[I],w)*p;Pu(t,e,v,{low:P,high:wt,
right:y,y:o},r)}}function Pu({data:t,moment:e,ratio:n,codes:o,isDim:r,coloring:s},a,i,{low:c,high:l,right:f,y:u},d){let p=e.allocations[i],g=t.allocations.released[p]<=
e.row,m=r?.[i]===1,w=m?a.dim:s.pixels[o[i]],y=g?$u:Bn,b=Math.round(c),v=Math.min(Math.round(l),f);if(v-b<1){let L=Math.min(Math.floor(c),a.width-1);l-c>a.weight[L]&&
(a.weight[L]=l-c,a.line[L]=w,a.kind[L]=y);return}if(a.line.fill(w,b,v),a.kind.fill(y,b,v),a.weight.fill(1,b,v),v-b<=3*n)return;a.line.fill(m?Wn:s.edges[o[i]],v-
Math.round(n),v);let I=(v-b)/n;I>_u&&d.length<Lu&&!m&&!g&&d.push({allocation:p,code:o[i],x:b/n,width:I,y:u})}function Hu(t,e,n,o,r){let{width:s,line:a,kind:i}=e;
for(let c=Math.max(n,0);c<Math.min(n+o,r);c++){let l=c*s;t.set(a,l);for(let f=0;f<s;f++){if(i[f]===Bn)continue;let u=(f+c)%Ou;i[f]===sa?u===0&&(t[l+f]=e.hatch):
u<2&&(t[l+f]=Wn)}}}function Fu(t,{layout:e,top:n,height:o,ink:r,font:s}){t.font=`600 12px ${s}`,t.fillStyle=r;for(let{y:a,group:i}of e.heads){if(a+Ne<n||a>n+o)continue;
let c=$(i.strips.length,"segment"),l=M(Math.max(i.bytes-i.used,0)),f=`${i.label}: ${M(i.bytes)} in ${c}, ${l} free`;t.fillText(rt(t,f,e.width),0,a-n+Ne/2+1)}}function zu(t,{
data:e,coloring:n,top:o,font:r},s){t.font=`11px ${r}`;for(let{allocation:a,code:i,x:c,width:l,y:f}of Du(s)){let[u,d,p]=n.rgb[i];t.fillStyle=.299*u+.587*d+.114*p>
140?"#000000":"#ffffff";let g=rt(t,Uu(e,a),l-8,Cu);g&&t.fillText(g,c+4,f-o+ot/2-.5)}}function Du(t){let e=new Map;for(let n of t){let o=e.get(n.allocation);(o===
void 0||n.width>o.width)&&e.set(n.allocation,n)}return e.values()}function Uu(t,e){let[n]=It(t,e),o=M(t.allocations.bytes[e]);return n?`${n} \xB7 ${o}`:o}function ia(t,e,n){let{picture:o}=t;!o?.moment.strips.length||e.altKey||e.ctrlKey||e.metaKey||Bu(t,o,e.key,n)&&(e.preventDefault(),e.stopPropagation())}function Bu(t,e,n,{
choose:o,zoom:r}){let s=ca(e);if(n==="ArrowRight"||n==="ArrowLeft")o(fa(t,e,n==="ArrowRight"?1:-1),!0);else if(n==="ArrowDown"||n==="ArrowUp")o(Wu(t,e,n==="Arro\
wDown"?1:-1),!0);else if(n==="Home")o(Gn(t,e,s[0]),!0);else if(n==="End")o(la(t,e,s[s.length-1]),!0);else if(n==="+"||n==="=")r(1.6);else if(n==="-")r(1/1.6);else if(n===
"0")r(1/t.zoom);else if(n==="Escape"&&t.chosen)o(null,!1);else return!1;return!0}function ca({groups:t}){return t.flatMap(e=>e.strips)}function Gn({data:t},{moment:e},n){
return Qt(t,e,n,e.strips[n].addr)}function la({data:t},{moment:e},n){let o=e.strips[n];return Qt(t,e,n,o.addr+o.bytes-1)}function fa(t,e,n){let o=ca(e),{chosen:r,
data:s}=t;if(!r)return Gn(t,e,o[0]);let a=e.moment.strips[r.strip],i=n>0?r.from+r.bytes:r.from-1;if(i>=a.addr&&i<a.addr+a.bytes)return Qt(s,e.moment,r.strip,i);
let c=o.indexOf(r.strip)+n;return c<0||c>=o.length?r:n>0?Gn(t,e,o[c]):la(t,e,o[c])}function Wu(t,e,n){let{chosen:o,data:r,width:s}=t,{moment:a,layout:i}=e;if(!o)
return fa(t,e,1);let c=ht(a,i,o).at(n>0?-1:0),l=c&&i.lines[Zt(i.lines,c.y)+n];return l?Jt(r,a,i,Math.min(c.x+1,s-2),l.y+1)??Jt(r,a,i,i.part.x[l.first],l.y+1):o}var ha=420,Gu=60,Ku=6e4;function pa(t,e,n){let o=ju(e,n);return t.replaceChildren(o.scroller,o.tip,o.spoken),Zu(o),{show:r=>Xu(o,r),setColor(r){return o.color=r,
Pe(o)},setDim(r){o.isDimmed=r,Pe(o)},choose:r=>Kn(o,r,!0),zoomBy:r=>He(o,r,null),fit:()=>He(o,1/o.zoom,null),setTheme(r){return o.theme=r,Pe(o)},resize(){o.picture&&
o.scroller.clientWidth!==o.width&&jn(o,o.picture.moment)},stats:()=>({script:o.script,zoom:o.zoom,lines:o.picture?.layout.lines.length??0}),hitAt:(r,s)=>Fe(o,{x:r,
y:s}),boxesOf:r=>o.picture?ht(o.picture.moment,o.picture.layout,r):[],destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function ju(t,e){let n=h("\
canvas",{class:"mm-canvas",tabindex:0,role:"application","aria-label":"Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."}),o=h("ca\
nvas",{class:"mm-over","aria-hidden":"true"}),r=h("div",{class:"mm-spacer"}),s=h("div",{class:"mm-stage"},n,o);return{data:t,options:e,canvas:n,over:o,stage:s,spacer:r,
scroller:h("div",{class:"mm-scroll"},s,r),tip:h("div",{class:"mm-tip",hidden:!0}),spoken:h("p",{class:"mm-said","aria-live":"polite"}),theme:e.theme,color:e.color,
isDimmed:null,zoom:1,hover:null,chosen:null,picture:null,colors:null,width:0,height:0,ratio:1,numLines:3,pending:0,script:[]}}function Xu(t,e){let{picture:n}=t;
if(t.hover=null,t.tip.hidden=!0,n&&Vu(n.moment,e)){let o=zn(t.data,e);o.forEach((r,s)=>{n.layout.heads[s].group=r}),t.picture={...n,moment:e,groups:o}}else jn(t,
e);return Pe(t)}function Vu(t,e){return t.device!==e.device||t.strips.length!==e.strips.length?!1:e.strips.every(({addr:n,bytes:o,pool:r,kind:s},a)=>{let i=t.strips[a];
return n===i.addr&&o===i.bytes&&r===i.pool&&s===i.kind})}function jn(t,e,n=null){let o=zn(t.data,e);t.width=Math.max(t.scroller.clientWidth||t.width,160);let r=ra(
e,o,t.width,qu(t,e,o)),s=Dn(e,o,t.width,r/t.zoom);t.picture={moment:e,groups:o,layout:s},t.height=Math.max(Math.min(s.height,ha),Gu),t.ratio=Math.min(devicePixelRatio||
1,2),t.scroller.style.height=`${t.height}px`,t.stage.style.height=`${t.height}px`,t.spacer.style.height=`${Math.max(s.height-t.height,0)}px`;for(let a of[t.canvas,
t.over])a.width=Math.floor(t.width*t.ratio),a.height=Math.floor(t.height*t.ratio),a.style.width=`${t.width}px`,a.style.height=`${t.height}px`;if(n){let[a]=ht(e,
s,n.hit);a&&(t.scroller.scrollTop=a.y-n.y)}Xn(t)}function qu(t,e,n){return t.numLines=Math.max(t.numLines,Math.ceil(e.allocations.length/4),e.strips.length),Math.
min(ha-4,n.length*26+t.numLines*ot)}function Pe(t){if(!t.picture)return[];let{moment:e}=t.picture,{isDimmed:n}=t,o=ta(t.data,e,t.color,t.theme);return t.colors=
{coloring:o,codes:Uint16Array.from(e.allocations,o.of),isDim:n&&Uint8Array.from(e.allocations,r=>n(r)?1:0)},Xn(t),o.legend}function Xn(t){t.pending||(t.pending=
requestAnimationFrame(()=>{t.pending=0;let{picture:e,colors:n}=t;e&&n?.codes.length===e.moment.allocations.length&&Yu(t,e,n)}))}function Yu(t,{moment:e,layout:n},o){
let{data:r,theme:s,height:a,ratio:i}=t,c=performance.now(),l=getComputedStyle(t.canvas),[f,u,d]=[l.color,l.fontFamily,t.scroller.scrollTop];aa(N(t.canvas),{data:r,
moment:e,layout:n,...o,theme:s,top:d,height:a,ratio:i,ink:f,font:u}),Vn(t),t.script.push(performance.now()-c),t.script.length>2e3&&t.script.splice(0,1e3)}function Vn(t){
let{picture:e,hover:n,chosen:o}=t,r=N(t.over);r.setTransform(t.ratio,0,0,t.ratio,0,0),r.clearRect(0,0,t.width,t.height),e&&(r.strokeStyle=getComputedStyle(t.canvas).
color,n&&ua(t,e,r,n,1.5),o&&ua(t,e,r,o,2.5))}function ua({scroller:t,height:e},{moment:n,layout:o},r,s,a){if(s.strip>=n.strips.length)return;let i=t.scrollTop;r.
lineWidth=a;for(let c of ht(n,o,s))c.y+ot<i||c.y>i+e||r.strokeRect(c.x-.5,c.y-i-.5,Math.max(c.width,2)+1,c.height+1)}function He(t,e,n){if(!t.picture)return;let{
moment:o,layout:r}=t.picture,s=n?n.y:t.height/3,a=Fe(t,{x:n?n.x:1,y:s}),i=Math.max(Ku/Math.max(r.lines.length,1)*t.zoom,1);t.zoom=Math.min(Math.max(t.zoom*e,1),
i),t.tip.hidden=!0,jn(t,o,a&&{hit:{...a,bytes:Math.max(a.bytes,1)},y:s})}function Fe({data:t,picture:e,scroller:n},{x:o,y:r}){return e&&Jt(t,e.moment,e.layout,o,
r+n.scrollTop)}function Zu(t){let{canvas:e,scroller:n}=t,o=s=>{let a=e.getBoundingClientRect();return{x:s.clientX-a.left,y:s.clientY-a.top}},r=s=>{!(s.ctrlKey||
s.metaKey)||!t.picture||(s.preventDefault(),He(t,Math.exp(-s.deltaY/200),o(s)))};n.addEventListener("scroll",()=>Xn(t)),n.addEventListener("wheel",r,{passive:!1}),
e.addEventListener("pointermove",s=>{let a=o(s);t.picture&&da(t,Fe(t,a),a)}),e.addEventListener("pointerleave",()=>da(t,null,{x:0,y:0})),e.addEventListener("cli\
ck",s=>{t.picture&&Kn(t,Fe(t,o(s)),!1)}),e.addEventListener("keydown",s=>ia(t,s,{choose:(a,i)=>Kn(t,a,i),zoom:a=>He(t,a,null)}))}function da(t,e,n){let{tip:o}=t,
r=e!==null&&e.strip===t.hover?.strip&&e.from===t.hover.from;if(t.hover=e,o.hidden=!e,e){r||o.replaceChildren(...t.options.describe(e).map(i=>h("div",{},i)));let s=Math.
min(n.x+14,t.width-o.offsetWidth-4),a=n.y+18+o.offsetHeight<t.height;o.style.left=`${Math.max(s,0)}px`,o.style.top=`${a?n.y+18:Math.max(n.y-o.offsetHeight-8,0)}\
px`}r||Vn(t)}function Kn(t,e,n){let{picture:o,scroller:r,height:s,options:a}=t;if(t.chosen=e,e&&o&&n){let[i]=ht(o.moment,o.layout,e),c=r.scrollTop;i&&(i.y<c||i.
y+ot>c+s)&&(r.scrollTop=i.y-s/2)}o&&Vn(t),t.spoken.textContent=e?a.describe(e).join(", "):"",a.onChoose(e)}var Ju=80;async function ma(t,e,{theme:n}){let o=Qu(await Is(e),n),{data:r,parts:s,curve:a,pool:i,flame:c}=o;return t.replaceChildren(...s.all),qn(o,o.device),o.
peak&&pt(o,o.peak.row,null),cancelAnimationFrame(o.pending),ga(o),{data:r,get moment(){return o.moment},get chosen(){return o.chosen},get since(){return o.since},
pool:i,curve:a,flame:c,showMoment:(l,f=null)=>pt(o,l,f),showStretch:(l,f)=>nd(o,l,f),showDevice:l=>qn(o,l),setColor:l=>wa(o,l),setTheme(l){a.setTheme(l),Zn(o,i.
setTheme(l)),c.setTheme(l)},resize(){for(let l of[a,i,c])l.resize()},destroy(){cancelAnimationFrame(o.pending),clearTimeout(o.settling);for(let l of[a,i,c])l.destroy();
t.replaceChildren()}}}function Qu(t,e){let n=ed(t),o=td(t),r=Hn(t,o,t.numRows-1),s={data:t,device:o,row:t.numRows-1,since:null,moment:r,counted:r.allocations,peak:null,
by:n,picked:null,color:n,chosen:null,isInNode:null,isSettled:!1,pending:0,settling:void 0},a=na(s,{onDevice:c=>qn(i,c),onAxis:c=>i.curve.setAxis(c),onPeak:()=>i.
peak&&pt(i,i.peak.row,null),onEnd:()=>pt(i,t.numRows-1,null),onZoom:c=>i.pool.zoomBy(c),onFit:()=>i.pool.fit(),onColor:c=>wa(i,c),onGrouping:c=>ld(i,c)}),i=Object.
assign(s,{parts:a,curve:Rs(a.curve,t,{theme:e,onMoment:(c,l)=>pt(i,c,l)}),pool:pa(a.map,t,{theme:e,color:n,describe:c=>Fs(t,i.moment,c),onChoose:c=>fd(i,c)}),flame:Vs(
a.flame,t,{theme:e,onZoom(c){i.isInNode=c,ze(i)}})});return i}function td({header:t}){let{devices:e}=t;return e.reduce((n,o,r)=>o.reserved_bytes>e[n].reserved_bytes?
r:n,0)}function ed({allocations:t,stacks:e}){return t.category.some(n=>n>0)||!e.n?"category":"stack"}function qn(t,e){let{data:n}=t;if(t.device=e,t.parts.devices.
mark(String(e)),t.picked=null,n.numRows){let o=Bs(n,e),r=Ws(o.allocated);t.peak={row:r,bytes:o.allocated[r+1]};let{index:s}=n.header.devices[e],a=n.header.marks.
filter(i=>i.device===null||i.device===s);t.curve.show(o,t.peak,a)}pt(t,t.row,t.since)}function pt(t,e,n){t.row=e,t.since=n,t.data.numRows&&t.curve.setMoment(e,n),
cancelAnimationFrame(t.pending),t.pending=requestAnimationFrame(()=>ga(t))}function nd(t,[e,n],o){let{clock:r,header:s}=t.data;if(!r)return;let a=Number(BigInt(
o)-BigInt(s.t0)),[i,c]=[Ee(r,e+a),Ee(r,n+a)];pt(t,c,i===c?null:i)}function ga(t){let{data:e,row:n,since:o,parts:r,chosen:s}=t,{alloc:a}=e.allocations;t.moment=Hn(
e,t.device,n),t.counted=t.moment.allocations.filter(i=>o===null||a[i]>o),r.moment.replaceChildren(...sd(t)),qs(r.bar,t.moment),Zn(t,t.pool.show(t.moment)),ze(t),
clearTimeout(t.settling),t.settling=setTimeout(()=>od(t),t.isSettled?Ju:0),s&&t.pool.choose(rd(t,s.allocation))}function od(t){t.isSettled=!0,Yn(t),t.flame.show(
t.counted)}function rd({data:t,moment:e},n){let{addr:o,bytes:r}=t.allocations,s=n<0?-1:e.allocations.indexOf(n),a=e.strips.findIndex(({first:i,end:c})=>i<=s&&s<
c);return a<0?null:{strip:a,allocation:n,from:o[n],bytes:r[n]}}function sd({data:t,row:e,since:n,moment:o,counted:r,peak:s}){let{sums:a}=o,i=id(t,e,s),c=$(o.allocations.
length,"block"),l=$(o.strips.length,"segment"),f=`${M(a.allocated)} allocated in ${c}, ${M(a.reserved)} reserved in ${l}`,u=a.pending?`, ${M(a.pending)} freed a\
nd waiting for a stream`:"",d=o.outside?`; ${$(o.outside,"block")} outside of the recorded segments`:"",p=n===null?"":cd(t,r,n),g=e===t.numRows-1?ad(t,o):"";return[
h("strong",{},`${i}: `),`${f}${u}${d}${g}.${p}`]}function ad({allocations:{alloc:t,bytes:e}},n){let o=0;for(let r of n.allocations)t[r]<0&&(o+=e[r]);return o?`;\
 ${M(o)} was allocated before recording`:""}function id(t,e,n){return e===n?.row?`At the peak (${J(t,e)})`:e===t.numRows-1?"At the end":e<0?"Before the first ac\
tion":`After ${J(t,e)}`}function cd(t,e,n){let o=e.reduce((s,a)=>s+t.allocations.bytes[a],0),r=$(e.length,"block");return` ${M(o)} of it in ${r} came since ${J(
t,n)} and stayed; the rest is pale.`}function Yn(t){Ps(t.parts.holders,t.data,t.counted,{by:t.by,picked:t.picked,onPick(e){t.picked=e,Yn(t),ze(t)}})}function ze({
data:t,pool:e,since:n,picked:o,by:r,isInNode:s}){if(n===null&&o===null&&!s){e.setDim(null);return}let{alloc:a,stack:i}=t.allocations;e.setDim(c=>n!==null&&a[c]<=
n||o!==null&&Ln(t,c,r)!==o||s!==null&&!s(i[c]))}function ld(t,e){t.by=e,t.picked=null,Yn(t),ze(t)}function wa(t,e){t.color=e,t.parts.colors.mark(e),Zn(t,t.pool.
setColor(e))}function Zn({parts:t,moment:e},n){oa(t.legend,n,e.sums.pending>0)}function fd(t,e){let{details:n}=t.parts;t.chosen=e;let o=n.hidden;Ds(n,t.data,t.moment,
e),o!==n.hidden&&t.pool.resize()}var ud=1500;function ba(t){let e=U(t),[n]=_(e,".cl-race-code",HTMLElement);n&&hd(n);let[o]=_(e,":scope > .cudalens-race-value",HTMLElement);return o&&dd(e,o),e}
function dd(t,e){let n=`cl-race-tab-${Math.random().toString(36).slice(2)}`,o=[...t.children].filter(c=>c!==e&&!c.matches("h4, .cl-race-what")),r=h("div",{class:"\
cl-race-panel"},...o),s=[r,e],a=["Accesses","Values"].map((c,l)=>h("button",{type:"button",role:"tab",id:`${n}-${l}`,"data-lm-suppress-shortcuts":"true"},c)),i=c=>{
for(let[l,f]of a.entries())f.setAttribute("aria-selected",String(l===c)),f.tabIndex=l===c?0:-1,s[l].hidden=l!==c};for(let[c,l]of s.entries())l.setAttribute("rol\
e","tabpanel"),l.setAttribute("aria-labelledby",`${n}-${c}`),a[c].addEventListener("click",()=>i(c)),a[c].addEventListener("keydown",f=>{f.key!=="ArrowLeft"&&f.
key!=="ArrowRight"||(f.preventDefault(),f.stopPropagation(),i(1-c),a[1-c].focus())});t.append(h("div",{class:"cl-race-tabs",role:"tablist","aria-label":"What is\
 known of the race"},...a),r,e),i(e.querySelector(".cl-value-confirmed")?1:0)}function hd(t){let e=t.textContent,n=h("div",{class:"cl-race-copy"}),o=h("button",
{type:"button",class:"cl-button","data-lm-suppress-shortcuts":"true"},"Copy");o.addEventListener("click",async()=>{o.textContent=await pd(e,t)?"Copied":"Selecte\
d: press Ctrl+C",setTimeout(()=>{o.textContent="Copy"},ud)}),t.replaceWith(n),n.append(t,o)}async function pd(t,e){try{return await navigator.clipboard.writeText(
t),!0}catch{return getSelection()?.selectAllChildren(e),document.execCommand("copy")}}var md=4,ya=10;function xa(t,e,{onChoose:n}={}){let o={model:e,onChoose:n,kind:null,at:0,shown:e.races,cards:new Map,items:[],id:`cl-race-${Math.random().toString(
36).slice(2)}`,list:h("ul",{class:"cl-race-list",role:"listbox",tabindex:"0","aria-label":"Races, worst first","data-lm-suppress-shortcuts":"true"}),card:h("div",
{class:"cl-race-host","aria-live":"polite"}),tools:h("div",{class:"cl-race-tools",role:"group","aria-label":"Kinds of races"})},r=e.races.length===1,s=r?o.card:
h("div",{class:"cl-race-split"},o.list,o.card);return r||(gd(o),vd(o)),t.replaceChildren(...o.tools.childElementCount?[o.tools]:[],s),ka(o),{choose:a=>xd(o,a),chosen:()=>o.
shown[o.at].row,setTheme(){},destroy:()=>t.replaceChildren()}}function gd(t){let{races:e,more:n}=t.model,o=new Map;for(let{kind:r,title:s}of e)o.set(r,{title:s,
number:(o.get(r)?.number??0)+1});if(o.size>1&&e.length>=md){let r=[...o].map(([s,{title:a,number:i}])=>({kind:s,text:`${a} ${O(i)}`}));for(let{kind:s,text:a}of[
{kind:null,text:`all ${O(e.length)}`},...r])t.tools.append(wd(t,s,a))}if(n){let r=`and ${$(n,"race")} more in trace.races`;t.tools.append(h("span",{class:"cl-hi\
nt"},r))}}function wd(t,e,n){let o=()=>{t.kind=e,va(t),Ma(t)},s={type:"button",class:"cl-button","aria-pressed":String(e===t.kind),onclick:o};return h("button",
{...s,"data-kind":e??""},n)}function va({tools:t,kind:e}){for(let n of _(t,"button",HTMLButtonElement))n.setAttribute("aria-pressed",String(n.dataset.kind===(e??
"")))}function Ma(t){let e=t.shown[t.at];t.shown=t.model.races.filter(n=>t.kind===null||n.kind===t.kind),t.at=Math.max(0,t.shown.indexOf(e)),ka(t)}function ka(t){
t.items=t.shown.map((e,n)=>bd(t,e,n)),t.list.replaceChildren(...t.items),Jn(t,t.at)}function bd(t,e,n){let o=t.model.races.indexOf(e)+1;return h("li",{role:"opt\
ion",id:`${t.id}-${n}`,"aria-selected":"false",onclick:()=>Aa(t,n)},h("b",{},`${O(o)}. ${e.title}`),` of ${e.tensor}, ${e.times}`,...e.places.map(r=>h("small",{},
r)))}function Jn(t,e){t.items[t.at]?.setAttribute("aria-selected","false"),t.at=e;let n=t.shown[e],o=t.items[e];o.setAttribute("aria-selected","true"),t.list.setAttribute(
"aria-activedescendant",o.id),yd(t.list,o);let r=t.cards.get(n)??ba(n.card);t.cards.set(n,r),t.card.replaceChildren(r)}function yd(t,e){let n=e.offsetTop-t.offsetTop;
n<t.scrollTop?t.scrollTop=n:n+e.offsetHeight>t.scrollTop+t.clientHeight&&(t.scrollTop=n+e.offsetHeight-t.clientHeight)}function Aa(t,e){Jn(t,e),t.onChoose?.(t.shown[e])}
function xd(t,e){t.shown.some(o=>o.row===e)||(t.kind=null,va(t),Ma(t));let n=t.shown.findIndex(o=>o.row===e);n>=0&&Jn(t,n)}function vd(t){t.list.addEventListener(
"keydown",e=>{if(e.ctrlKey||e.metaKey||e.altKey)return;let n=t.shown.length-1,o={ArrowDown:t.at+1,ArrowUp:t.at-1,Home:0,End:n,PageDown:t.at+ya,PageUp:t.at-ya};e.
key in o&&(e.preventDefault(),e.stopPropagation(),Aa(t,Math.min(Math.max(o[e.key],0),n)))})}async function De(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("gzip"));return new Uint8Array(await new Response(e).arrayBuffer())}async function Qn(t){
return JSON.parse(new TextDecoder().decode(await De(t)))}var Ta=Symbol.for("cudalens.libraries");function Md(){let t=globalThis;return t[Ta]??=new Map,t[Ta]}async function to(t,e,n,o=""){
let r=Md(),s=`${t}@${e}`,a=`${s} from ${o}`,i=()=>r.get(s)??r.get(a);for(let l=i();l;l=i()){let f=await l.catch(()=>null);if(f)return f.default}let c=n(t).then(
De).then(kd);return r.set(a,c),c.then(()=>r.set(s,c)).catch(()=>{}).then(()=>r.delete(a)),(await c).default}var Sa=["$","moduleName"];async function kd(t){let e=URL.
createObjectURL(new Blob([t],{type:"text/javascript"})),n=Sa.map(o=>Object.getOwnPropertyDescriptor(globalThis,o));try{let o=await import(e);return"default"in o?
o:{default:Reflect.get(globalThis,"moduleName")}}finally{URL.revokeObjectURL(e),Sa.forEach((o,r)=>{let s=n[r];s?Object.defineProperty(globalThis,o,s):Reflect.deleteProperty(
globalThis,o)})}}function Ea(t,e,n){let o=Math.random().toString(36).slice(2),r=new Set,s="",a=n.map(({key:f})=>h("div",{id:`cl-${o}-${f}`,class:"cl-tab-panel",role:"tabpanel",hidden:!0})),
i=n.map(({key:f,title:u})=>h("button",{type:"button",class:"cl-tab",role:"tab","data-key":f,"aria-controls":`cl-${o}-${f}`,"data-lm-suppress-shortcuts":"true",onclick:()=>c(
f)},u)),c=f=>{s=f,n.forEach((u,d)=>{let p=u.key===f;i[d].setAttribute("aria-selected",String(p)),i[d].tabIndex=p?0:-1,a[d].hidden=!p,p&&r.has(f)&&u.onShow?.(),!(!p||
r.has(f))&&(r.add(f),u.fill(a[d]))})},l=h("div",{class:"cl-tabs",role:"tablist","aria-label":e},...i);return l.addEventListener("keydown",f=>{let u={ArrowRight:1,
ArrowLeft:-1}[f.key];if(u===void 0)return;let d=(i.findIndex(p=>p.dataset.key===s)+u+n.length)%n.length;c(n[d].key),i[d].focus(),f.preventDefault(),f.stopPropagation()}),
t.replaceChildren(l,...a),n.length&&c(n[0].key),{show:c,current:()=>s}}var Ad=2,Td=18,Sd=18;function Oa(t){let e=_(t,"tr[data-depth]",HTMLTableRowElement),n=e.map(i=>Number(i.dataset.depth)),o=n.map((i,c)=>c+1<n.length&&n[c+1]>i),r=n.
map(i=>i<Ad);e.forEach((i,c)=>{let l=i.cells[0].querySelector(".cl-place");l&&(l.textContent=l.textContent?.replace(/^[\u203a ]+/,"")??""),i.cells[0].style.paddingInlineStart=
`${Td*n[c]+(o[c]?0:Sd)+10}px`});let s=e.map((i,c)=>{if(!o[c])return null;let l=()=>{r[c]=!r[c],a()},f=i.cells[0].textContent,u=h("button",{type:"button",class:"\
cl-fold","aria-label":`Modules in ${f}`});return u.addEventListener("click",d=>{d.stopPropagation(),l()}),i.cells[0].prepend(u),u}),a=()=>{let i=1/0;e.forEach((c,l)=>{
n[l]<=i&&(i=1/0),c.hidden=n[l]>i,s[l]?.setAttribute("aria-expanded",String(r[l])),s[l]&&(s[l].textContent=r[l]?"\u25BE":"\u25B8"),!c.hidden&&o[l]&&!r[l]&&(i=n[l])})};
a()}var Ue=0,te=1,eo=2,_a=3,Ca=4,Be=5,We=6,La=7,H=8,$a="ProfilerStep*",Ed=new Set(["Trace","overhead","gpu_user_annotation","cuda_sync"]);function Ra(t){let e=Float64Array.
from(t.self),n=new Int32Array(t.n);for(let r=0;r<t.n;r++)n[r]=t.flags[r]&C.folded?n[t.parent[r]]:r,n[r]!==r&&(e[n[r]]+=t.self[r]);let o=t.header.step_names;return{
self:e,key:Od(t,o),steps:o}}function Od({n:t,flags:e,lane:n,name:o,header:r},s){let a=Uint32Array.from(r.names.keys());for(let f of s)a[f]=s[0];let i=Uint8Array.
from(r.lanes,({kind:f})=>+(f==="device")),c=C.folded|C.instant,l=new Int32Array(t);for(let f=0;f<t;f++)l[f]=e[f]&c?-1:a[o[f]]*2+i[n[f]];return l}function*Ia(t,e,n){
let o=$d(2*t.header.names.length);for(let[a,i]of at(0,t.n))Cd(t,e,n,o,a,i),yield;let r=_d(o);for(let[a,i]of at(0,t.n))Ld(t,e,n,r,o,a,i),yield;let s=[...r.keys()].
filter(a=>o[a*H+te]);return s.sort((a,i)=>o[a*H+Ue]-o[i*H+Ue]),Id(s.map(a=>Rd(t,e,o,a)))}function $d(t){let e=new Float64Array(t*H);for(let n=0;n<e.length;n+=H)
e[n+Be]=1/0,e[n+We]=-1/0;return e}function _d(t){return Float64Array.from({length:t.length/H},(e,n)=>t[n*H+eo]/t[n*H+te])}function Cd({flags:t,dur:e},{self:n,key:o},r,s,a,i){
for(let c=a;c<i;c++){if(r!==null&&!r[c]||o[c]<0)continue;let l=o[c]*H,f=e[c],u=n[c];s[l+te]===0&&(s[l+Ue]=c),s[l+te]+=1,s[l+eo]+=f,s[l+_a]+=u,t[c]&C.waiting||(s[l+
Ca]+=u),f<s[l+Be]&&(s[l+Be]=f),f>s[l+We]&&(s[l+We]=f)}}function Ld({dur:t},{key:e},n,o,r,s,a){for(let i=s;i<a;i++){if(n!==null&&!n[i]||e[i]<0)continue;let c=t[i]-
o[e[i]];r[e[i]*H+La]+=c*c}}function Rd(t,e,n,o){let r=o>>1,s=e.steps.includes(r),a=n.subarray(o*H,(o+1)*H),[i,c]=[a[te],a[eo]];return{ids:s?e.steps:[r],name:s?$a:
t.header.names[r],short:s?$a:W(t.header,r),side:o&1,cat:t.header.cats[t.cat[a[Ue]]],count:i,total:c,self:a[_a],cost:a[Ca],min:a[Be],max:a[We],mean:c/i,std:i>1?Math.
sqrt(a[La]/(i-1)):null}}function Id(t){let e=o=>Ed.has(o.cat)?0:o.cost,n=[0,0];for(let o of t)n[o.side]+=e(o);return t.map(({cost:o,...r})=>({...r,share:n[r.side]>
0?100*e({...r,cost:o})/n[r.side]:0}))}var Nd={cpu_op:"CPU op",user_annotation:"range",gpu_user_annotation:"GPU range",cuda_runtime:"runtime",cuda_driver:"driver",kernel:"kernel",gpu_memcpy:"copy",gpu_memset:"\
set",python_function:"Python",cuda_sync:"sync",overhead:"overhead"};function Pd({mean:t,std:e}){let n=e!==null?` <span class="spread">\xB1 ${x(e)}</span>`:"";return`${x(
t)}${n}`}function Hd({share:t,side:e}){let n=e?"GPU":"CPU";return`<span class="bar"><i style="width:${t.toFixed(1)}%"></i></span>${R(t)} ${n}`}function Fd({name:t,
short:e}){return`<span class="name" title="${re(t)}">${re(e)}</span>`}function Na({cat:t}){return Nd[t]??t}function Pt(t,e,n,o){let r=e==="name"||e==="cat";return{
title:t,data:e,...r?{}:{className:"number"},render:(s,a,i)=>a==="display"?o(i):n(i),searchable:r,orderSequence:["desc","asc"]}}function Ge(t,e){return Pt(t,e,n=>n[e],
n=>x(n[e]))}var no=[Pt("Name","name",t=>`${t.short} ${t.name}`,Fd),Pt("Kind","cat",Na,t=>`<span class="kind">${re(Na(t))}</span>`),Pt("Count","count",t=>t.count,
t=>O(t.count)),Ge("Total","total"),Ge("Self","self"),Pt("Mean \xB1 sd","mean",t=>t.mean,Pd),Ge("Min","min"),Ge("Max","max"),Pt("Share of self","share",t=>t.share,
Hd)];function mt(t){return no.findIndex(e=>e.data===t)}var Pa=mt("share"),Ke=[{width:1e3,columns:[mt("min"),mt("max")]},{width:760,columns:[mt("cat"),mt("total")]},
{width:600,columns:[mt("mean"),mt("count")]}];var Ha=`
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
table.dataTable > tbody > tr.chosen > td:first-child { box-shadow: inset 3px 0 0 var(--cl-accent) !important; }
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
`;var zd=[["All",null],["GPU",1],["CPU",0]];function Da(t,e,{DataTable:n,styleSheet:o,theme:r,onNames:s}){let a=t.shadowRoot??t.attachShadow({mode:"open"}),i=h("t\
able",{class:"display compact","aria-label":"Costs by name"});a.replaceChildren(h("style",{},o),h("style",{},Ha),i),n.ext.errMode="throw";let c=Ra(e),l=new Set(
e.header.lanes.map(({kind:m})=>m)).size>1,f={rows:[],side:null,chosen:new Set,width:0,stage:"shown",isWhole:!1},u=new n(i,{...Ud(),layout:{topStart:l?[()=>Bd(f,
()=>Fa(u,f,"summed")),"info"]:"info",topEnd:"search",bottomStart:"pageLength",bottomEnd:"paging"},rowCallback:(m,w)=>za(m,w,f.chosen)});Dd(a),Wd(u,f,i,s);let d=jd(
f,()=>oo(u,f,t));a.append(d);let p=new ResizeObserver(()=>oo(u,f,t));p.observe(t),oo(u,f,t);let g=m=>{t.classList.toggle("dark",m==="dark")};return g(r),{*sum(m){
f.rows=yield*Ia(e,c,m),f.stage="summed"},load:()=>Ua(u,f),update:()=>Fa(u,f,f.stage),choose(m){f.chosen=m??new Set,u.rows({page:"current"}).every(function(){za(
this.node(),this.data(),f.chosen)})},setTheme:g,rows:()=>f.rows,destroy(){p.disconnect(),u.destroy(),a.replaceChildren()}}}function Dd(t){for(let e of t.querySelectorAll(
"nav"))e.removeAttribute("aria-label"),e.setAttribute("role","none")}function Ud(){return{columns:no,data:[],order:[[Pa,"desc"]],pageLength:10,lengthMenu:[10,25,
50,100,{label:"all",value:-1}],language:{search:"",searchPlaceholder:"Filter names",info:"_START_\u2013_END_ of _TOTAL_ names",infoEmpty:"no names",infoFiltered:"\
(of _MAX_)",lengthMenu:"_MENU_ a page",emptyTable:"Nothing is selected here",zeroRecords:"No name matches the filter"},autoWidth:!1,deferRender:!0}}function Ua(t,e){
e.stage==="summed"&&(t.clear().rows.add(e.rows.filter(n=>e.side===null||n.side===e.side)),e.stage="loaded")}function Fa(t,e,n){e.stage=n,Ua(t,e),e.stage==="load\
ed"&&t.draw(),e.stage="shown"}function Bd(t,e){let n=h("div",{class:"sides",role:"group","aria-label":"Where the time went"});for(let[o,r]of zd){let s=()=>{t.side=
r;for(let a of n.children)a.setAttribute("aria-pressed",String(a.textContent===o));e()};n.append(h("button",{type:"button","aria-pressed":String(r===null),onclick:s},
o))}return n}function za(t,e,n){let o=e.ids.some(r=>n.has(r));t.classList.toggle("chosen",o),t.setAttribute("aria-selected",String(o)),t.tabIndex=0}function Wd(t,e,n,o){
let r=s=>{let a=s.composedPath().find(Gd),i=a&&t.row(a).data();if(!i)return;let c=Kd(e.chosen,i.ids,s.ctrlKey||s.metaKey||s.shiftKey);o(c.size?c:null)};n.addEventListener(
"click",r),n.addEventListener("keydown",s=>{let[a]=s.composedPath();s.key!=="Enter"&&s.key!==" "||!(a instanceof HTMLTableRowElement)||(s.preventDefault(),r(s))})}
function Gd(t){return t instanceof HTMLTableRowElement&&t.parentElement?.tagName==="TBODY"}function Kd(t,e,n){let o=e.every(a=>t.has(a)),r=o&&t.size===e.length,
s=new Set(n?t:[]);for(let a of e)n&&o?s.delete(a):(n||!r)&&s.add(a);return s}function oo(t,e,n){let o=e.isWhole?1/0:n.clientWidth;if(o===0||o===e.width)return;e.
width=o;let r=n.clientWidth<Ke[0].width;n.setAttribute("data-view",r?e.isWhole?"whole":"narrow":"wide"),n.toggleAttribute("data-slim",o<Ke[2].width);for(let{width:s,
columns:a}of Ke)t.columns(a).visible(o>=s)}function jd(t,e){let o=h("button",{type:"button",class:"columns","aria-pressed":"false",onclick:()=>{t.isWhole=!t.isWhole,
o.setAttribute("aria-pressed",String(t.isWhole)),e()}},"All columns");return o}function ro(t,e){return h("h3",{"aria-level":2,class:e?null:"cl-unseen"},t)}async function Ba({source:t,parts:e,panels:n,isClosed:o}){let r=await Qn(await t.races());
if(o())return;let s=h("div",{class:"cudalens-races"}),{hasProfile:a,hasGraphs:i}=t.facts;e.races.append(ro("Races",a||i),s),e.races.hidden=!1,n.races=xa(s,r,{onChoose:c=>n.
timeline?.showRace(c.row)})}async function Wa({source:t,parts:e,panels:n,isClosed:o}){let r=await Qn(await t.graphs());if(o())return;let s=h("div",{class:"cudal\
ens-graphs"}),{hasProfile:a,hasRaces:i}=t.facts;e.graphs.append(ro("CUDA graphs",a||i),s),e.graphs.hidden=!1,n.graphs=As(s,r)}async function so(t){let{source:e,
parts:n}=t,{memoryMap:o,memoryFirst:r}=e.facts,s=await e.memory();if(t.isClosed())return;let a=h("div",{class:"mm-host"}),i=h("div",{class:"cudalens-memory"},...o?
[U(o)]:[]);n.memoryMap.append(ro("Memory",!r),a,i),n.memoryMap.hidden=!1,t.panels.memoryMap=await ma(a,s,{theme:t.theme})}function Ga({source:t,parts:e,store:n},o){
t.facts.findings&&(e.findings.append(U(t.facts.findings)),ao(e.findings,"tbody tr[data-event]",r=>{let s=o.eventOf(Number(r.dataset.event));return s>=0&&n.set({
event:s,range:null,names:null},"findings"),s>=0}),e.findings.hidden=!1)}function Ka({source:t,parts:e,panels:n}){t.facts.syncs&&(e.syncs.append(U(t.facts.syncs)),
ao(e.syncs,"tbody tr",(o,r)=>(n.timeline?.showSync(r),!0)),e.syncs.hidden=!1)}function ao(t,e,n){let o=_(t,e,HTMLElement);o.forEach((r,s)=>{let a=()=>{if(n(r,s))
for(let i of o)i.toggleAttribute("data-chosen",i===r)};r.tabIndex=0,r.addEventListener("click",a),r.addEventListener("keydown",i=>{i.key==="Enter"&&a()})})}function ja(t,e){
let{parts:n,panels:o,source:r,store:s}=t;return Ea(n.table,"Costs",[{key:"table",title:"Operators and kernels",fill:a=>a.append(n.tableHost)},{key:"flame",title:"\
Flame graph",fill(a){o.flame=Ms(a,e,{theme:t.theme,baseline:r.facts.baseline,onEvent:i=>s.set({event:i,range:null,names:null},"flame")}),G(o.flame.update(s.get()))},
onShow:()=>o.flame?.shown()},...Xd.flatMap(([a,i])=>{let c=r.facts[a];return c?[{key:a,title:i,fill:l=>Vd(t,e,l,a,c)}]:[]})])}var Xd=[["lines","Lines"],["module\
s","Modules"],["steps","Steps"]];function Vd({store:t},e,n,o,r){let s=h("div",{class:`cudalens-${o}`},U(r));for(let a of s.querySelectorAll("details:first-child"))
a.setAttribute("open","");Oa(s),n.append(s),ao(s,"tbody tr[data-event]",a=>{let i=e.eventOf(Number(a.dataset.event));return i>=0&&t.set({event:i,range:null,names:null},
o),i>=0})}async function Xa(t,e){let{asset:n,versions:o,sender:r}=t.source,[s,a]=await Promise.all([to("datatables.js",o.datatables,n,r),n("datatables.css").then(
De)]);t.isClosed()||(t.panels.table=Da(t.parts.tableHost,e,{DataTable:s,styleSheet:new TextDecoder().decode(a),theme:t.theme,onNames:i=>t.store.set({names:i},"t\
able")}))}function Va({source:t,parts:e,panels:n,theme:o},r){if(!r.metrics.length)return;let s=h("div",{class:"cl-metrics-host"}),a=h("h3",{"aria-level":2},"GPU\
 readings",h("span",{},t.facts.metrics??""));e.metrics.replaceChildren(a,s),e.metrics.hidden=!1;let i=Ya(r,r.metrics);n.metrics=rs(s,r.metrics,r.header.metrics.
gauges,{theme:o,view:i})}async function qa(t,e){if(t.isClosed())return;let{parts:n,panels:o,source:r,store:s}=t,a=qd(e),i=h("h3",{"aria-level":2},"Memory");if(o.
memoryMap||!a.length){n.memory.hidden=!0;return}let c=h("div",{class:"cl-plot-host"},h("p",{class:"cl-hint"},"Loading the memory curve\u2026"));n.memory.replaceChildren(
i,c),await ko(c,t.cleanups);let l=await to("plotly.js",r.versions.plotly,r.asset,r.sender);if(t.isClosed())return;c.replaceChildren();let f=ts(c,a,{Plotly:l,theme:t.
theme,view:e.n&&o.timeline?.getView()||Ya(e,a),onRange:d=>s.set({range:d},"memory")});o.memory=f,await f.ready;let{range:u}=s.get();u&&f.setRange(u)}function qd(t){
return t.memory.map(({label:e,ts:n,allocated:o})=>{let r=[...o.keys()].filter(s=>!Number.isNaN(o[s]));return{label:e,ts:Float64Array.from(r,s=>n[s]),values:Float64Array.
from(r,s=>o[s])}}).filter(e=>e.ts.length)}function Ya(t,e){if(t.n)return ae(yt(t,!0));let n=e.flatMap(({ts:o})=>[o[0],o[o.length-1]]);return[Math.min(...n),Math.
max(...n)+1]}function Ja(t,e,{range:n,event:o,names:r},s=[]){let a=[`t=${io(e)}`];n&&a.push(`s=${io(n)}`),o!==null&&a.push(`e=${t.rowOf(o)}`);for(let i of[...r??[]].slice(0,
20))a.push(`n=${encodeURIComponent(t.header.names[i])}`);for(let{at:i,dur:c,note:l}of s.slice(0,50))a.push(`m=${io([i,i+c])}:${encodeURIComponent(l)}`);return`#${a.
join("&")}`}function io([t,e]){return`${Math.round(t)}-${Math.round(e)}`.replace("--","-n").replace(/^-/,"n")}function Qa(t,e){let n=new URLSearchParams(e.replace(
/^#/,"")),o={},r=Za(n.get("s"));r&&(o.range=r);let s=Number.parseInt(n.get("e")??"",10),a=Number.isInteger(s)?t.eventOf(s):-1;a>=0&&(o.event=a);let c=n.getAll("\
n").map(l=>t.header.names.indexOf(l)).filter(l=>l>=0);return c.length&&(o.names=new Set(c)),{view:Za(n.get("t")),selection:o,marks:n.getAll("m").slice(0,50).flatMap(
Yd)}}function Yd(t){let[e,...n]=t.split(":"),[o,r]=ti(e)??[1,0];return o<=r?[{at:o,dur:r-o,note:n.join(":")}]:[]}function Za(t){let e=ti(t);return e&&e[0]<e[1]?
e:null}function ti(t){let e=/^(n?\d{1,16})-(n?\d{1,16})$/.exec(t??"");if(!e)return null;let[n,o]=[e[1],e[2]].map(r=>Number(r.replace("n","-")));return[n,o]}function ei(t,{event:e,names:n},o){let r=n??(e===null?null:new Set([t.name[e]]));if(r===null)return null;let s=e===null?null:t.header.lanes[t.lane[e]].kind,a=[];
for(let l=0;l<t.n;l++){let f=s===null||n!==null||t.header.lanes[t.lane[l]].kind===s;r.has(t.name[l])&&f&&a.push(l)}if(!a.length)return null;a.sort((l,f)=>t.start[l]-
t.start[f]||l-f);let i=e===null?-1:a.indexOf(e),c=i<0?Zd(t,a):(i+o+a.length)%a.length;return{event:a[c],ordinal:c+1,count:a.length}}function Zd({dur:t},e){return e.
reduce((n,o,r)=>t[o]>t[e[n]]?r:n,0)}function*oi(t,e,n,o){let r=n.get(),s=V(e,r);if(t.hidden=s===null,s===null)return;let a=0;for(let l=0;l<e.n;l++)a+=s[l];let i=r.range?[Jd(e,r.range,yield*Oo(e,r.
range))]:[],c=o.link();t.replaceChildren(h("span",{class:"cl-bar-count"},`${$(a,"event")} of ${O(e.n)} selected`),...th(e,r).map(([l,f])=>eh(n,l,f)),...i.map(l=>h(
"span",{class:"cl-measure"},l)),...Qd(e,n),...Wr(e,r,o.mark),ni("Copy pandas","Copy the expression that selects these rows",Xr(e,r)),...c===null?[]:[ni("Copy li\
nk","Copy the address of what shows",c)],h("button",{class:"cl-button cl-clear",type:"button",onclick:()=>n.clear("bar")},"Clear selection"))}function Jd(t,e,{busy:n,
idle:o,work:r,calls:s}){let a=`${$(s,"CPU event")}`;if(!t.header.lanes.some(({kind:c,count:l})=>c==="device"&&l))return a;let i=R(100*n/(e[1]-e[0]));return`GPU \
busy ${x(n)} (${i}), idle ${x(o)}; ${$(r,"GPU event")}, ${a}`}function Qd(t,e){let{event:n,names:o}=e.get();if(n===null&&o===null)return[];let r=a=>()=>{let i=ei(
t,e.get(),a);i&&e.set({event:i.event,names:null,range:null},"bar")},s=(a,i,c)=>h("button",{class:"cl-button",type:"button",title:i,"aria-label":i,onclick:r(c)},
a);return n===null?[s("Go to the longest","Select the longest event of this name",1)]:[s("\u2039 same name","Previous event of this name",-1),s("same name \u203A",
"Next event of this name",1)]}function ni(t,e,n){let s=h("button",{...{class:"cl-button cl-copy",type:"button",title:n===null?"More than 2,000 rows":e},disabled:n===
null,"data-text":n,onclick:async()=>{if(n!==null)try{await navigator.clipboard.writeText(n),s.textContent="Copied"}catch{s.replaceWith(h("code",{class:"cl-copy-\
text",tabindex:0},n))}}},t);return s}function th(t,{range:e,event:n,names:o}){let r=[];if(e){let[s,a]=e;r.push(["range",`${x(s)} \u2013 ${x(a)} (${x(a-s)})`])}if(n!==
null&&r.push(["event",`within ${W(t.header,t.name[n])}`]),o){let[s]=[...o].map(a=>W(t.header,a));r.push(["names",o.size===1?s:`${s} and ${o.size-1} more`])}return r}
function eh(t,e,n){let o=()=>t.set({[e]:null},"bar");return h("span",{class:"cl-chip",title:n},h("span",{},n),h("button",{type:"button","aria-label":`Stop selec\
ting ${n}`,onclick:o},"\xD7"))}function ri(t,e){let n=h("div",{class:"cl-table-host"}),o={verdict:h("p",{class:"cl-verdict"},...nh(e.badge),...oh(e.verdict)),message:h("div",{class:"cl-messag\
e",role:"alert",hidden:!0}),status:h("p",{class:"cl-hint cl-status"},"Loading the timeline\u2026"),races:B("cl-races","Races"),graphs:B("cl-graphs","CUDA graphs"),
findings:B("cudalens-findings","Findings"),memoryMap:B("cl-memory-map","Memory"),part:h("p",{class:"cl-hint cl-part",hidden:!0}),timeline:h("div",{class:"cl-tim\
eline"}),metrics:B("cl-metrics","Readings of the GPUs"),syncs:B("cudalens-syncs","Waits for the GPU"),bar:h("div",{class:"cl-bar",hidden:!0}),marks:B("cl-marks",
"Marks"),table:B("cl-panel cl-table","Costs"),tableHost:n,details:B("cl-panel cl-details","Details of the selected event"),memory:B("cl-panel cl-memory","Memory\
 curve")};return t.replaceChildren(o.verdict,...rh(e.details),...sh(e.notes),o.message,o.status,...e.graphsFirst?[o.graphs,o.races]:[o.races,o.graphs],...e.memoryFirst?
[o.memoryMap]:[],o.part,o.timeline,o.bar,o.marks,o.metrics,o.findings,o.syncs,h("div",{class:"cl-columns"},o.table,o.details),o.memory,...e.memoryFirst?[]:[o.memoryMap]),
o}function B(t,e,...n){return h("section",{class:t,role:"group","aria-label":e,hidden:!0},...n)}function nh(t){return t?[h("span",{class:"cl-badge"},t)," "]:[]}
function oh(t){let e=t.indexOf("; ");return e<0?[h("strong",{},t)]:[h("strong",{},t.slice(0,e)),t.slice(e)]}function rh(t){return t?[h("details",{class:"cl-supp\
ort"},h("summary",{},"more figures"),h("p",{},t))]:[]}function sh(t=[]){return t.length?[h("ul",{class:"cl-notes"},...t.map(e=>h("li",{},e)))]:[]}var ah=120,ih=5e4;function ai(t,e){let n=bt();t.classList.add("cudalens"),t.dataset.theme=n,t.dataset.state="loading";let o={root:t,source:e,parts:ri(t,e.facts),
store:jr(),panels:{},marks:null,tabs:null,theme:n,data:null,isOpen:!0,isClosed:()=>!o.isOpen,following:void 0,tableMask:void 0,updating:[],cleanups:[se(s=>si(o,
s))]};return{ready:ch(o).catch(s=>o.isOpen&&li(o,s)),get data(){return o.data},panels:o.panels,get tabs(){return o.tabs},selection:o.store,showStatus(s){o.parts.
status.textContent=s},setTheme:s=>si(o,s),destroy:()=>xh(o)}}async function ch(t){let{source:e}=t,{hasRaces:n,hasGraphs:o,hasProfile:r,memoryFirst:s,memoryAlone:a}=e.
facts;if(n&&await gt(t,"list of races",()=>Ba(t)),o&&await gt(t,"graph tree",()=>Wa(t)),t.isClosed())return;if(s&&await gt(t,"memory map",()=>so(t)),yh(t),!r||a){
await dh(t);return}let i=await Mo(await e.payload());t.isClosed()||(t.data=i,await lh(t,i))}async function lh(t,e){let{parts:n,source:o,root:r}=t;o.onData?.(),n.
status.remove(),t.panels.timeline=Hr(n.timeline,e,{theme:t.theme,onSelect:s=>t.store.set(s,"timeline"),onTime:s=>hh(t,[...s])}),fh(t,e),uh(t),Va(t,e),Ga(t,e),Ka(
t),o.facts.memoryMap&&!o.facts.memoryFirst&&await gt(t,"memory map",()=>so(t)),t.store.subscribe((s,a)=>ph(t,e,s,a)),t.tabs=ja(t,e),n.table.hidden=!1,n.memory.hidden=
!1,await co(),r.dataset.state="painted",o.onPaint?.(),await Promise.all([gt(t,"table",async()=>{await Xa(t,e),G(ii(t,e,t.store.get())),ci(t,t.store.get())}),gt(
t,"list of details",()=>e.detailsReady)]),gt(t,"memory curve",()=>qa(t,e)),t.isOpen&&o.hash&&wh(t,e,o.hash),t.isOpen&&(r.dataset.state="ready")}function fh({parts:t},{
n:e,header:n}){if(!n.first_row)return;let[o,r]=[n.num_all,e].map(s=>s.toLocaleString("en"));t.part.textContent=`This page has the last ${r} of ${o} events, from\
 ${x(n.begin)} on: the timeline, the table of operators and kernels, the flame graph, the memory curve and the readings show these. Verdict, findings, lines, mo\
dules and steps are of the whole run.`,t.part.hidden=!1}function uh(t){let{source:e,panels:n,store:o,parts:r}=t;t.marks=Br(r.marks,e.facts.marks,{onChange(s){n.
timeline?.setMarks(s),e.onMarks?.(s)},onShow({at:s,dur:a}){let i=Math.max(a*.5,500);n.timeline?.zoomTo(s-i,s+a+i),a&&o.set({range:[s,s+a],event:null},"marks")}}),
n.timeline?.setMarks(t.marks.marks)}async function dh(t){t.parts.status.remove(),t.parts.timeline.hidden=!0,t.source.onData?.(),await co(),t.source.onPaint?.(),
t.isOpen&&t.root.dataset.state!=="failed"&&(t.root.dataset.state="ready")}function co(){return new Promise(t=>{let e=setTimeout(t,250);requestAnimationFrame(()=>setTimeout(
()=>{clearTimeout(e),t()}))})}async function gt(t,e,n){try{await n()}catch(o){t.isOpen&&li(t,o,`The ${e} cannot be shown`)}}function hh(t,e){t.panels.metrics?.setView(
e),clearTimeout(t.following),t.following=setTimeout(()=>t.isOpen&&t.panels.memory?.setView(e),ah)}function ph(t,e,n,o){let{timeline:r,memory:s,memoryMap:a,races:i}=t.
panels,{range:c,event:l,names:f}=n;o!=="timeline"&&(r?.setRange(c?.[0]??null,c?.[1]),r?.setNames(f),r?.select(l)),o!=="memory"&&s?.setRange(c),c&&a?.showStretch(
c,e.header.t0),t.parts.details.hidden=l===null,Ur(t.parts.details,e,l);let u=r?.raceOf(l)??null;u!==null&&i?.choose(u),t.source.onSelect?.(bh(e,n));let d=[()=>{
V(e,n)},()=>oi(t.parts.bar,e,t.store,{link:()=>gh(t,e),mark:p=>t.marks?.add(p)}),()=>ii(t,e,n),()=>t.panels.table?.load(),()=>ci(t,n),()=>t.panels.flame?.update(
n)];e.n>ih?mh(t,d):So(d)}async function mh(t,e){t.updating=e,await Eo(e,co,()=>!t.isOpen||t.updating!==e)}function gh({source:t,panels:e,store:n,marks:o},r){return!t.
address||!e.timeline?null:t.address(Ja(r,e.timeline.getView(),n.get(),o?.marks))}function wh({panels:t,store:e,marks:n},o,r){let{view:s,selection:a,marks:i}=Qa(
o,r);i.length&&n&&(n.replace(i),t.timeline?.setMarks(n.marks)),Object.keys(a).length&&e.set(a,"link"),s&&t.timeline?.zoomTo(...s)}function*ii(t,e,n){let{table:o}=t.
panels,r=V(e,{...n,names:null});o&&r!==t.tableMask&&(yield*o.sum(r)),o&&(t.tableMask=r)}function ci({panels:{table:t}},{names:e}){t?.update(),t?.choose(e)}function bh(t,{
range:e,event:n,names:o}){return{range:e&&[...e],event:n===null?null:t.rowOf(n),names:o&&[...o].map(r=>t.header.names[r]),name_rows:o&&bn(t,o)}}function yh(t){let e=t.
root.clientWidth,n=new ResizeObserver(()=>{t.root.clientWidth!==e&&(e=t.root.clientWidth,t.panels.memory?.resize(),t.panels.flame?.resize(),t.panels.metrics?.resize(),
t.panels.memoryMap?.resize())});n.observe(t.root),t.cleanups.push(()=>n.disconnect())}function si(t,e){t.theme=e,t.root.dataset.theme=e;for(let n of Object.values(
t.panels))n.setTheme(e)}function li({root:t,parts:e,source:n,data:o},r,s="The live view cannot be shown"){let a=r instanceof st;if(a&&!o){t.dataset.state="faile\
d",n.onGone?.();return}e.status.remove(),e.message.hidden=!1,e.message.append(h("p",{},`${s}: ${r instanceof Error?r.message:r}`)),t.dataset.state="failed",n.onFail?.(),
a||console.error(r)}function xh(t){t.isOpen=!1,clearTimeout(t.following);for(let e of Object.values(t.panels))e.destroy();for(let e of t.cleanups.splice(0))e();
t.root.replaceChildren()}function lo(t){return t?_(document,`[data-cudalens-static="${CSS.escape(t)}"]`,HTMLElement):[]}function fo(t,e){let n=lo(t).map(r=>r.closest(".jp-OutputArea-chi\
ld")??r),o=n.length>1?n[0].nextElementSibling:null;o instanceof HTMLElement&&o.nextElementSibling===n[1]&&n.push(o);for(let r of n)r.style.display=e?"none":""}var vh=1e3,Mh="This view becomes interactive when the kernel is free.",kh="The kernel was restarted before this view had its data. Run the cell again for the in\
teractive view.";function Ah(t){let e=new Map,n=To(),o=0,r=!1,s=c=>{for(let l of e.values())l.reject(c);e.clear()},a=()=>{r=!0,s(new st)},i=(c,l)=>{let f=e.get(
c?.id);f&&(e.delete(c.id),c.error?f.reject(new Error(c.error)):f.resolve(fi(l[0])))};return t.on("msg:custom",i),t.on("comm_live_update",a),Th(t).then(c=>c&&a()),
{ask(c){if(r)return Promise.reject(new st);o+=1;let l=`${n}-${o}`;return new Promise((f,u)=>{e.set(l,{resolve:f,reject:u}),t.send({kind:"request",id:l,want:c})})},
close(){t.off("msg:custom",i),t.off("comm_live_update",a),s(new Error("the view was closed"))}}}async function Th(t){try{return(await t.widget_manager?.get_model(
t.get("_picture")))?.comm_live===!1}catch{return!1}}function fi(t){return t instanceof ArrayBuffer?new Uint8Array(t):new Uint8Array(t.buffer,t.byteOffset,t.byteLength)}
function Sh({model:t,el:e}){let n=t.get("_picture"),o=Ah(t),r=d=>{let p=t.get("_ready")[d];return p?Promise.resolve(fi(p)):o.ask(d)},s=h("div",{}),a=h("p",{class:"\
cl-live-note",role:"status",hidden:!0},Mh),i=h("div",{class:"cudalens cl-callback-errors",role:"alert"});e.classList.add("cudalens-live"),e.replaceChildren(a,s,
i),s.hidden=lo(n).length>0;let c=setTimeout(()=>{a.hidden=!1,l.showStatus("")},vh),l=ai(s,{facts:{...t.get("_facts"),marks:t.get("_marks")},versions:t.get("_ver\
sions"),sender:t.get("_process"),payload:()=>r("payload"),races:()=>r("races"),graphs:()=>r("graphs"),memory:()=>r("memory"),asset:d=>o.ask(d),onData(){clearTimeout(
c),a.hidden=!0,s.hidden=!1,fo(n,!0)},onFail(){clearTimeout(c),a.hidden=!0,s.hidden=!1},onGone(){clearTimeout(c),a.textContent=kh,a.hidden=!1},onMarks(d){t.set("\
_marks",d),t.save_changes()},onSelect(d){t.set("_selection",d),t.save_changes()}}),f=()=>{i.replaceChildren(...t.get("_errors").map(d=>h("pre",{class:"cl-traceb\
ack"},d)))};i.dataset.theme=bt();let u=se(d=>{i.dataset.theme=d});return t.on("change:_errors",f),f(),()=>{clearTimeout(c),u(),t.off("change:_errors",f),o.close(),
l.destroy(),fo(n,!1)}}var Rb={render:Sh};export{Rb as default};
