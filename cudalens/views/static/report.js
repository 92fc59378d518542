/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function qa(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function Fe(t){
return new Error(`cudalens payload: ${t}. Save the trace again with the same version of cudalens.`)}async function qt(t){if(t.byteLength<12||String.fromCharCode(
...t.subarray(0,4))!=="CLP1")throw Fe(`found ${t.byteLength} bytes that do not begin with CLP1`);let e=new DataView(t.buffer,t.byteOffset,t.byteLength),n=e.getUint32(
4,!0)===1,o=([a,c])=>{let i=a+c;if(i>t.byteLength)throw Fe(`it ends at byte ${t.byteLength}, ${i} expected`);let l=t.subarray(a,i);return n?qa(l):l},r=e.getUint32(
8,!0),s=JSON.parse(new TextDecoder().decode(await o([12,r])));if(s.version!==1)throw Fe(`found version ${s.version}, expected 1`);return{header:s,places:Ya(s,12+
r),read:o}}function Ya(t,e){let n=new Map,o=e;for(let[r,s]of Object.entries(t.columns)){let a=[];for(let c of"text"in s?[s.text]:s.planes)a.push(c<0?c:[o,c]),c>
0&&(o+=c);n.set(r,a)}return n}async function Jn({header:t,places:e,read:n},o){let{n:r,signed:s}=t.columns[o],a=e.get(o)??[],c=await Promise.all(a.map(i=>typeof i==
"number"?-1-i:n(i)));return{n:r,signed:s,planes:c}}async function H(t,e){let{n,signed:o,planes:r}=await Jn(t,e);if(r.length>4||o&&r.length===4)return Za(r,n,o);
let s=new Uint32Array(n);if(r.forEach((c,i)=>{if(typeof c=="number"){if(c)for(let l=0;l<n;l++)s[l]|=c<<8*i}else if(i===0)for(let l=0;l<n;l++)s[l]=c[l];else for(let l=0;l<
n;l++)s[l]|=c[l]<<8*i}),!o)return s;let a=new Int32Array(s.buffer);for(let c=0;c<n;c++)a[c]=s[c]>>>1^-(s[c]&1);return a}function Za(t,e,n){let o=new Float64Array(
e),r=(s,a)=>{let c=t[s]??0;return typeof c=="number"?c:c[a]};for(let s=0;s<e;s++){let a=(r(0,s)|r(1,s)<<8|r(2,s)<<16|r(3,s)<<24)>>>0,c=(r(4,s)|r(5,s)<<8|r(6,s)<<
16|r(7,s)<<24)>>>0,i=a&1,l=(a>>>1|(c&1)<<31)>>>0;if(!n)o[s]=c*4294967296+a;else{let f=(c>>>1)*4294967296+l;o[s]=i?-f-1:f}}return o}async function Qn(t,e){let{n,
signed:o,planes:r}=await Jn(t,e),s=new BigUint64Array(n),a=new Uint8Array(s.buffer);if(r.forEach((c,i)=>{for(let l=0;l<n;l++)a[8*l+i]=typeof c=="number"?c:c[l]}),
o)for(let c=0;c<n;c++)s[c]=s[c]>>1n^BigInt.asUintN(64,-(s[c]&1n));return s}async function Z({places:t,read:e},n){let[o]=t.get(n);return JSON.parse(new TextDecoder().
decode(await e(o)))}async function to(t){let{devices:e,actions:n}=t.header.memory,o=["ts","device","action","bytes","allocated_bytes","reserved_bytes","event"],r=await Promise.all(
o.map(d=>H(t,`mem.${d}`))),[s,a,c,i,l,f,u]=r.map(d=>Float64Array.from(d));for(let d=1;d<s.length;d++)s[d]+=s[d-1],u[d]+=u[d-1];for(let d of[l,f])Ja(d,a,e.length);
return e.map((d,p)=>{let m=[...a.keys()].filter(w=>a[w]===p),g=w=>Float64Array.from(m,b=>w[b]);return{label:d,actions:n,ts:g(s),bytes:g(i),allocated:g(l),reserved:g(
f),action:g(c),event:g(u)}})}function Ja(t,e,n){let o=new Float64Array(n);for(let r=0;r<t.length;r++){o[e[r]]+=t[r];let s=o[e[r]];t[r]=s===0?Number.NaN:s-1}}async function eo(t){
let{devices:e,gauges:n,reasons:o}=t.header.metrics;return Promise.all(e.map((r,s)=>Qa(t,n,{label:r,k:s,reasons:o})))}async function Qa(t,e,{label:n,k:o,reasons:r}){
let s=["ts","slowed_by",...e.map(({column:u})=>u)],[a,c,...i]=await Promise.all(s.map(u=>H(t,`met.${o}.${u}`))),l=Float64Array.from(a);for(let u=1;u<l.length;u++)
l[u]+=l[u-1];let f=e.map(({scale:u},d)=>Float64Array.from(i[d],p=>p===0?Number.NaN:(p-1)/u));return{label:n,ts:l,slowed:c,reasons:r,values:Object.fromEntries(e.
map(({column:u},d)=>[u,f[d]]))}}async function no(t,e){for(let{name:n,coding:o}of t.header.details)e.set(n,await(o==="dictionary"?tc(t,n):ec(t,n)))}async function tc(t,e){
let[n,o]=await Promise.all([H(t,`${e}.codes`),Z(t,`${e}.values`)]);return r=>n[r]?o[n[r]-1]:null}async function ec(t,e){let[n,o]=await Promise.all([H(t,`${e}.kn\
own`),Qn(t,`${e}.steps`)]);for(let s=1;s<o.length;s++)o[s]+=o[s-1];let r=new Uint32Array(n.length);for(let s=0,a=0;s<n.length;s++)r[s]=n[s]?++a:0;return s=>r[s]?
String(BigInt.asIntN(64,o[r[s]-1])):null}var C={instant:1,folded:2,outside:4,launched:8,waiting:16};function oo(t,e,n,o,r){let s=new Float64Array(e),a=new Float64Array(e),c=[],i=[],l=()=>{let u=c.pop(),
d=i[c.length+1],p=(d<0?s[u]:d)+r[u];a[u]=p-s[u],i[c.length]=p},f=0;for(let u of t){i[0]=0;for(let d=f+u.count;f<d;f++){for(let g=n[f];g>0;g--)l();let p=c.length,
m=i[p];s[f]=(m<0?s[c[p-1]]:m)+o[f],c.push(f),i[p+1]=-1}for(;c.length;)l()}return{start:s,dur:a}}function ro({n:t,start:e,dur:n,flags:o,header:r}){let s=n.slice(),
a=new Int32Array(t).fill(-1),c=new Uint16Array(t),i=new Int32Array(t+1),l=0;for(let f of r.lanes){let u=l+f.count;if(f.kind==="device"){l=u;continue}let d=0;for(;l<
u;l++){if(o[l]&C.outside)continue;let p=Math.max(e[l]+n[l],e[l]+1);for(;d&&e[i[d-1]]+n[i[d-1]]<p;)d--;d&&(a[l]=i[d-1],s[a[l]]-=n[l],c[l]=d),i[d++]=l}}return{own:s,
parent:a,depth:c}}function so(t,e,n,o,r){let s=new Int32Array(t).fill(-1),a=new Set(o),c=[];for(let i=0;i<t;i++)a.has(n[i])&&c.push(i);for(let i=0,l=0,f=-1;i<t;i++)
e[i]&C.launched&&(f+=r[l++]+1,s[i]=c[f]);return s}function ao({start:t,dur:e,header:n,n:o},r,s){let a=nc(n.lanes),c=n.first_row,i=new Map,l=new Map;for(let d=0,p=0;d<r.length;d++)p+=r[d],i.set(p,p+s[d]),l.set(p+
s[d],p);let f=d=>a.reduce((p,{from:m,to:g})=>p+De(m,g,w=>t[w]>=d)-m,0),u=d=>{let p=oc(d,t,a,f),m=[];for(let{from:g,to:w}of a)for(let b=De(g,w,y=>t[y]>=p);b<w&&t[b]===
p;b++)m.push(b);return m.sort((g,w)=>e[w]-e[g])[d-f(p)]};return{rowOf(d){let p=a.findIndex(({to:g})=>d<g),m=d-a[p].from;return a.forEach(({from:g,to:w},b)=>{if(b===
p)return;m+=De(g,w,k=>t[k]>t[d]||t[k]===t[d]&&(b<p?e[k]<e[d]:e[k]<=e[d]))-g}),c+(i.get(m)??m)},eventOf(d){let p=d-c;return Number.isInteger(p)&&p>=0&&p<o?u(l.get(
p)??p):-1}}}function nc(t){let e=0;return t.map(({count:n})=>(e+=n,{from:e-n,to:e}))}function De(t,e,n){let[o,r]=[t,e];for(;o<r;){let s=o+r>>1;n(s)?r=s:o=s+1}return o}
function oc(t,e,n,o){let r=n.filter(({from:c,to:i})=>i>c),s=Math.min(...r.map(({from:c})=>e[c])),a=Math.max(...r.map(({to:c})=>e[c-1]))+1;for(;a-s>1;){let c=Math.
floor((s+a)/2);o(c)<=t?s=c:a=c}return s}function U(t,e){return t.short[e]??t.names[e]}async function io(t){let e=await qt(t),[n,o]=await Promise.all([rc(e),Z(e,"names")]),r={...e.header,names:o},{n:s,
lanes:a}=r,c=Uint8Array.from(n.flags),i={header:r,n:s,flags:c,...oo(a,s,n.closed,n.gap,n.tail)},{own:l,parent:f,depth:u}=ro(i);cc(l,n.self_at,n.self_off);let d=await to(
e),p=await eo(e),m=new Map,g=new Promise(w=>setTimeout(w,0)).then(()=>no(e,m));return g.catch(()=>{}),{...i,...sc(r,n),lane:ac(a,s),self:l,parent:f,depth:u,launch:so(
s,c,n.kind,n.launchers,n.launch),...ao(i,n.row_at,n.row_off),memory:d,metrics:p,detail:w=>Object.fromEntries([...m].map(([b,y])=>[b,y(w)])),detailOf:w=>m.get(w)??
(()=>null),detailsReady:g}}var co=["closed","gap","tail","kind","kind_name","kind_cat","flags","launch","launchers","self_at","self_off","row_at","row_off"];async function rc(t){
let e=await Promise.all(co.map(n=>H(t,n)));return Object.fromEntries(co.map((n,o)=>[n,e[o]]))}function sc({n:t,cats:e},{kind:n,kind_name:o,kind_cat:r}){let s=new Uint32Array(
t),a=e.length>256?new Uint16Array(t):new Uint8Array(t);for(let c=0;c<t;c++)s[c]=o[n[c]],a[c]=r[n[c]];return{name:s,cat:a}}function ac(t,e){let n=t.length>65536?
new Uint32Array(e):new Uint16Array(e),o=0;return t.forEach(({count:r},s)=>{n.fill(s,o,o+r),o+=r}),n}function cc(t,e,n){let o=0;for(let r=0;r<e.length;r++)o+=e[r],
t[o]+=n[r]}var ze="http://www.w3.org/2000/svg";function h(t,e={},...n){let o=document.createElement(t);for(let[r,s]of Object.entries(e))s==null||s===!1||(typeof s=="functi\
on"?o.addEventListener("click",s):o.setAttribute(r,s===!0?"":String(s)));return o.append(...n.filter(r=>r!=null)),o}function F(t,e={},...n){let o=document.createElementNS(
ze,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,String(s));return o.append(...n),o}var ic={"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"};function Yt(t){
return t.replace(/[&<>"']/g,e=>ic[e])}function lo(t,e){return new Promise(n=>{let o=()=>{s.disconnect(),removeEventListener("beforeprint",r)},r=()=>{o(),n()},s=new IntersectionObserver(
a=>a.some(c=>c.isIntersecting)&&r(),{rootMargin:"200px"});s.observe(t),addEventListener("beforeprint",r),e.push(o)})}function N(t,e){let n=t.getContext("2d",e);
if(n===null)throw new Error("this browser cannot draw on a canvas");return n}function _(t,e,n){return[...t.querySelectorAll(e)].filter(o=>o instanceof n)}function fo(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var lc=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]],fc=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"K\
iB"]];function x(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${x(-t)}`;if(t>=1195e8){let e=Math.round(t/1e9);return`${Math.floor(e/60)} min ${e%60} \
s`}for(let[e,n]of lc)if(t>=.9995*e)return`${fo(t/e)} ${n}`;return t>=.9995||t===0?`${t.toFixed(0)} ns`:`${Number(t.toPrecision(2))} ns`}function v(t){if(t==null||
Number.isNaN(t))return"-";if(t<0)return`-${v(-t)}`;for(let[e,n]of fc)if(t>=.9995*e)return`${fo(t/e)} ${n}`;return`${t.toFixed(0)} B`}function L(t){return t==null||
Number.isNaN(t)?"-":t>0&&t<.1?"<0.1 %":t<9.95?`${t.toFixed(1)} %`:`${t.toFixed(0)} %`}function O(t){return t.toLocaleString("en-US")}function $(t,e){return`${O(
t)} ${e}${t===1?"":"s"}`}var Zt=class extends Error{constructor(){super("the kernel was restarted; run the cell again")}};function Jt(){if(matchMedia("print").matches)return"light";let{jpThemeLight:t,vscodeThemeKind:e}=document.body.dataset;if(t!==void 0)return t==="false"?"dark":"\
light";if(e!==void 0)return e.includes("light")?"light":"dark";let n=document.documentElement.dataset.theme;return n==="dark"||n==="light"?n:matchMedia("(prefer\
s-color-scheme: dark)").matches?"dark":"light"}function uo(t){let e=Jt(),n=()=>{let a=Jt();a!==e&&(e=a,t(a))},o=new MutationObserver(n),r={attributes:!0,attributeFilter:[
"data-jp-theme-light","data-vscode-theme-kind","data-theme"]};o.observe(document.body,r),o.observe(document.documentElement,r);let s=[matchMedia("(prefers-color\
-scheme: dark)"),matchMedia("print")];for(let a of s)a.addEventListener("change",n);return()=>{o.disconnect();for(let a of s)a.removeEventListener("change",n)}}var uc=new Set(["kernel","gpu_memcpy","gpu_memset"]);function po(t,[e,n]){let{start:o,dur:r,cat:s,lane:a,header:c}=t,i=Uint8Array.from(c.cats,g=>+uc.has(g)),l=Uint8Array.
from(c.lanes,({kind:g})=>+(g==="device")),f={from:[],to:[]},u={from:[],to:[]},[d,p]=[0,0];for(let g=0;g<t.n;g++){g>0&&a[g]!==a[g-1]&&(f=ho(f,u),u={from:[],to:[]});
let w=o[g]+r[g];o[g]>=n||w<=e||(l[a[g]]?i[s[g]]&&(d+=1,Be(u,Math.max(o[g],e),Math.min(w,n))):p+=1)}f=ho(f,u);let m=f.from.reduce((g,w,b)=>g+f.to[b]-w,0);return{
busy:m,idle:n-e-m,work:d,calls:p}}function Be(t,e,n){let o=t.to.length-1;o>=0&&e<=t.to[o]?t.to[o]=Math.max(t.to[o],n):(t.from.push(e),t.to.push(n))}function ho(t,e){
if(!t.from.length||!e.from.length)return t.from.length?t:e;let n={from:[],to:[]};for(let o=0,r=0;o<t.from.length||r<e.from.length;)r>=e.from.length||t.from[o]<=
e.from[r]?Be(n,t.from[o],t.to[o++]):Be(n,e.from[r],e.to[r++]);return n}function mo({start:t,dur:e},n,o){let[r,s]=t[n]<=t[o]?[n,o]:[o,n],a=t[r]+e[r];return a<t[s]?
[a,t[s]]:[t[r],Math.max(t[s],t[r]+1)]}var dc=`
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
`,go=Symbol.for("cudalens.timeline.style");function wo(t){let e=t.getRootNode(),n=e instanceof ShadowRoot?e:document;if(n[go])return;let o=new CSSStyleSheet;o.replaceSync(
dc),n[go]=o,n.adoptedStyleSheets=[...n.adoptedStyleSheets,o]}function bo({style:t},e){let{bg:n,text:o,muted:r,line:s,lineSoft:a,accent:c,tip:i,field:l}=e;for(let[
f,u]of Object.entries({bg:n,text:o,muted:r,line:s,soft:a,accent:c,tip:i,field:l}))t.setProperty(`--timeline-${f}`,u);t.setProperty("--timeline-tip-text",e.tipText),
t.setProperty("color-scheme",n<"#8"?"dark":"light")}var hc="W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, L follows a \
launch arrow. F fits, slash searches, C folds a lane, P pins it, Escape goes back.",pc=[["wheel","zoom, after a click"],["Ctrl+wheel","zoom"],["drag","pan"],["S\
hift+drag","select time"],["W A S D","move"],["F","fit"],["/","search"],["Enter","step through events"]];function yo(t){wo(t);let e=mc(),n=h("canvas",{class:"cl\
tl-canvas",tabindex:"0",role:"application","aria-roledescription":"timeline","aria-label":"Timeline of the trace"}),o=h("div",{class:"cltl-stage"},n),r=h("div",
{class:"cltl-frame"},o),s=h("div",{class:"cltl-tip",hidden:!0,"aria-hidden":"true"}),a=h("div",{class:"cltl-spoken","aria-live":"polite"}),c=h("div",{class:"clt\
l-spoken",id:`cltl-${Math.random().toString(36).slice(2)}`},hc);n.setAttribute("aria-describedby",c.id);let i=h("div",{class:"cltl-lanes",hidden:!0}),f=h("div",
{class:"cltl",role:"group","aria-label":"Stream timeline"},e.tools,i,r,gc(),s,a,c);for(let u of f.querySelectorAll("canvas, input, button"))u.setAttribute("data\
-lm-suppress-shortcuts","true");return t.append(f),{...e,canvas:n,stage:o,frame:r,lanes:i,tip:s,spoken:a,host:f}}function mc(){let t=(d,p,m)=>h("button",{type:"\
button","aria-label":d,title:m},p),e=(...d)=>h("span",{class:"cltl-group"},...d),n=h("input",{class:"cltl-search",type:"search",placeholder:"Search names  ( / )",
"aria-label":"Search event names",autocomplete:"off",spellcheck:"false"}),o=h("span",{class:"cltl-matches",role:"status"}),r=t("Previous match","\u2039","Previo\
us match (Shift+Enter)"),s=t("Next match","\u203A","Next match (Enter)"),a=t("Zoom in","+","Zoom in (W)"),c=t("Zoom out","\u2212","Zoom out (S)"),i=t("Fit the w\
hole trace","Fit","Show the whole trace (F)"),l=t("Lanes","Lanes","Pin, move, fold and filter lanes");l.setAttribute("aria-expanded","false");let f=h("ul",{class:"\
cltl-legend","aria-label":"Colours"}),u=h("div",{class:"cltl-tools",role:"toolbar","aria-label":"Timeline"},e(n,r,s,o),e(c,a,i,l),f);return{search:n,matches:o,previous:r,
next:s,zoomIn:a,zoomOut:c,fit:i,lanesButton:l,legend:f,tools:u}}function gc(){let t=pc.flatMap(([e,n])=>[h("span",{},h("kbd",{},e),` ${n}`)," "]);return h("div",
{class:"cltl-hint","aria-hidden":"true"},...t)}function xo(t,e){t.legend.replaceChildren(...e.map(([n,o])=>{let r=h("i",{"aria-hidden":"true"});return r.style.background=
o,h("li",{},r,n)}))}function vo(t,e,n,o){let[r,...s]=e;t.tip.replaceChildren(h("b",{},r),...s.map(l=>h("div",{},l))),t.tip.hidden=!1;let{offsetWidth:a,offsetHeight:c}=t.
tip,i=t.host.clientWidth;t.tip.style.left=`${Math.max(0,n+14+a>i?n-a-10:n+14)}px`,t.tip.style.top=`${o+18+c>t.host.clientHeight?o-c-8:o+18}px`}var E=18,Ct=24,A=26,M=Ct+A,Ue=4,wc=20;function dt(t,e=!1){let n=1/0,o=-1/0,r=t.header.cats.map(s=>s==="Trace"||s==="overhead");for(let s=0;s<t.n;s++){if(e&&(r[t.
cat[s]]||t.flags[s]&C.instant))continue;t.start[s]<n&&(n=t.start[s]);let a=t.start[s]+t.dur[s];a>o&&(o=a)}return n===1/0?e?dt(t):[0,1e3]:[n,Math.max(o,n+1)]}function We([
t,e],n){let o=(n[1]-n[0])*1.04,r=Math.min(Math.max(e-t,Math.min(wc,o)),o),s=(t+e)/2,a=n[0]-r*.9,c=n[1]-r*.1,i=r>=o?(n[0]+n[1]-o)/2:Math.min(Math.max(s-r/2,a),c);
return[i,i+r]}function Qt(t){let e=(t[1]-t[0])*.02;return[t[0]-e,t[1]+e]}function Mo(t,e,n,o=110){let r=(e-t)*o/Math.max(n,1),s=10**Math.floor(Math.log10(r)),a=Math.
max(1,([1,2,5,10].find(i=>i*s>=r*.999)??10)*s),c=[];for(let i=Math.ceil(t/a);i*a<=e&&c.length<200;i++)c.push({t:i*a,text:yc(i*a,a)});return{ticks:c,step:a}}var bc=[
[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]];function yc(t,e){let[n,o]=bc.find(([s])=>Math.abs(t)>=s)??[1,"ns"],r=Math.max(0,Math.ceil(Math.log10(n/e)-1e-9));return t===
0?"0":`${(t/n).toFixed(r)} ${o}`}function te(t,e,n,o=0){let r=new Float64Array(t.length),s=new Float64Array(t.length),a=new Uint16Array(t.length),c=0;for(let i of n)
a[i]=e.has(i)?1:t[i],r[i]=c,c+=a[i]*E+2*Ue,s[i]=c;return{order:n,tops:r,ends:s,shown:a,pinned:o?s[n[o-1]]:0,total:c}}function nt(t,e){let{order:n,tops:o}=t;if(e<
0||e>=t.total)return-1;let r=0,s=n.length-1;for(;r<s;){let a=r+s+1>>1;o[n[a]]<=e?r=a:s=a-1}return n[r]}function ee(t,e,n){return t.tops[e]+Ue+n*E}function ko(t,e){
let n=nt(t,e);if(n<0)return null;let o=Math.floor((e-t.tops[n]-Ue)/E);return o>=0&&o<t.shown[n]?{lane:n,row:o}:null}var xc=.6;function ne({size:t,layout:e}){return e.pinned<=xc*(t.height-M)?e.pinned:0}function oe(t,e){return e-M<ne(t)?e-M:e-M+t.scroll}function J(t){let{size:e,
view:n,layout:o}=t,r=e.width-e.gutter,s=Math.max(1,Math.round(r*e.ratio)),a=(n[1]-n[0])/s,c=Math.round(n[0]/a)*a,i=s/e.ratio/(n[1]-n[0]),l=ne(t),f=p=>e.gutter+(p-
c)*i,u=(p,m)=>M+m-(o.tops[p]<l?0:t.scroll),d=(p,m)=>u(p,ee(o,p,m));return{width:r,pixels:s,w:a,t0:c,t1:c+s*a,scale:i,parts:vc(t,l),x:f,y:d,down:u}}function vc({
layout:t,size:e,scroll:n},o){let{order:r,tops:s}=t,a=Math.min(n,Math.max(0,t.total-1))+o,c=n+e.height-M,i=Math.max(0,r.indexOf(nt(t,a))),l=nt(t,c),u={lanes:r.slice(
i,l<0?r.length:r.indexOf(l)+1).filter(p=>s[p]>=o),top:M+o,bottom:e.height};if(!o)return[u];let d={lanes:r.filter(p=>s[p]<o),top:M,bottom:M+o};return[u,d]}function ht(t,e,n){
let o=t.data.lane[n],r=t.rows.row[n];return r>=t.layout.shown[o]?null:{x:e.x(t.data.start[n]),y:Math.round(e.y(o,r)),width:Math.max(1,t.data.dur[n]*e.scale)}}var Ao={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#\
d55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_\
runtime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var D=Ao;function re(t,e){let{groups:n}=D,o=n.findIndex(s=>s.cats.includes(t));return o<0?n.length-1:n[o].key==="kernel"&&D.comm_prefixes.some(s=>e.startsWith(s))?
n.findIndex(s=>s.key==="comm"):o}function mt(t){let e=2166136261;for(let n=0;n<t.length;n++)e=Math.imul(e^t.charCodeAt(n),16777619);return e>>>0}function pt(t){
let[e,n,o]=[1,3,5].map(r=>Number.parseInt(t.slice(r,r+2),16));return[e,n,o]}function kc(t,e,n){let o=pt(e),[r,s,a]=pt(t).map((c,i)=>Math.floor(c+(o[i]-c)*n+.5));
return[r,s,a]}function Ac(t){let[e,n,o]=t.map(r=>r/255).map(r=>r<=.04045?r/12.92:((r+.055)/1.055)**2.4);return .2126*e+.7152*n+.0722*o}var W=D.light.shades.length;
function _t(t){let e=D[t].shades,n=D.groups.flatMap(o=>e.map(([r,s])=>kc(o.color,r,s)));return{pixels:Uint32Array.from(n,([o,r,s])=>(s<<16|r<<8|o)>>>0),css:n.map(
o=>`rgb(${o.join(",")})`),ink:n.map(o=>(Ac(o)+.05)**2>.05*1.05?"#000000":"#ffffff")}}var G=16,se=512,Rt=65535,Tc=.02,To=88,Sc=255<<24>>>0,Ec=150<<24>>>0;function Eo(t){let{start:e,dur:n,n:o,header:r}=t,s=new Uint16Array(o),a=[],c=new Float64Array(
se),i=new Int32Array(se),l=new Map,f=0;for(let u of r.lanes){let d=-1,p=0;c.fill(-1/0);let m=f+u.enclosing;for(let g=f+u.count;f<g;f++){if(f<m&&f>m-u.enclosing){
s[f]=Rt;continue}let w=e[f],b=w+n[f];for(;d>=0&&c[d]<=w;)d--;let y=d;for(;y>=0&&!(c[y]>w&&c[y]>=b);)y--;for(y++;y<se&&c[y]>w;){if(e[i[y]]<w&&c[y]-w<Tc*(b-w)){l.
set(i[y],w);break}y++}if(y>=se){s[f]=Rt;continue}s[f]=y,c[y]=b,i[y]=f,b>w&&y>d&&(d=y),y>=p&&(p=y+1)}a.push(Math.max(p,1))}return{row:s,heights:a,ends:l}}function ae(t,e,n){
let o=n;for(;e.row[o]===Rt&&o>0&&t.lane[o-1]===t.lane[n];)o--;return e.row[n]===Rt&&e.row[o]===0?o:n}function Oo(t){let{names:e,cats:n}=t.header,o=new Map,r=new Uint8Array(
t.n),s=new Int8Array(e.length).fill(-1),a=-1,c=0;for(let i=0;i<t.n;i++){let l=t.name[i]*65536+t.cat[i];if(l!==a){let f=o.get(l);if(f===void 0){let u=e[t.name[i]];
s[t.name[i]]<0&&(s[t.name[i]]=mt(u)%W),f=re(n[t.cat[i]],u)*W+s[t.name[i]],o.set(l,f)}a=l,c=f}r[i]=c}return r}function ce(t,e,n,o=null){let{start:r,dur:s,lane:a,
n:c}=t,i=g=>e.row[g]===Rt||o!==null&&!o[g],l=So(e.heights),f=new Uint32Array(l[e.heights.length]);for(let g=0;g<c;g++)i(g)||f[l[a[g]]+e.row[g]]++;let u=So(f),d=u[u.
length-1],p={first:u,laneRow:l,at:new Uint32Array(d),s:new Float64Array(d),e:new Float64Array(d),sum:new Float64Array(d+1),tone:new Uint8Array(d)},m=u.slice();for(let g=0;g<
c;g++){if(i(g))continue;let w=m[l[a[g]]+e.row[g]]++;p.at[w]=g,p.s[w]=r[g],p.e[w]=r[g]+s[g],p.tone[w]=n[g]}for(let[g,w]of e.ends)i(g)||(p.e[Oc(p,l[a[g]]+e.row[g],
g)]=w);for(let g=0;g<d;g++)p.sum[g+1]=p.sum[g]+p.e[g]-p.s[g];return{...p,maxima:$c(p.s,p.e)}}function Oc({first:t,at:e},n,o){let r=t[n],s=t[n+1];for(;r<s;){let a=r+
s>>1;e[a]<o?r=a+1:s=a}return r}function So(t){let e=new Uint32Array(t.length+1);for(let n=0;n<t.length;n++)e[n+1]=e[n]+t[n];return e}function $c(t,e){let n=[],o=null;
for(let r=t.length;r>G;){let s=Math.ceil(r/G),a=new Uint32Array(s);for(let c=0;c<s;c++){let i=-1,l=-1;for(let f=c*G;f<Math.min(r,(c+1)*G);f++){let u=o===null?f:
o[f];e[u]-t[u]>l&&(l=e[u]-t[u],i=u)}a[c]=i}n.push(a),o=a,r=s}return n}function $o(t,e,n){let{s:o,e:r,maxima:s}=t,a=e,c=r[e]-o[e],i=u=>{let d=r[u]-o[u];(d>c||d===
c&&u<a)&&(c=d,a=u)},l=e,f=n;for(let u=-1;l<f;u++){let d=u<0?null:s[u],p=u+1>=s.length||f-l<=G;for(;l<f&&(p||l%G);)i(d===null?l++:d[l++]);for(;f>l&&f%G;)i(d===null?
--f:d[--f]);l/=G,f/=G}return a}function ie(t,e,n,o){let r=1,s=e;for(;s+r<n&&t[s+r]<o;)s+=r,r*=2;let a=Math.min(n,s+r);for(;s<a;){let c=s+a>>1;t[c]<o?s=c+1:a=c}return s}
function K(t,e,n){let o=t.first[e],r=ie(t.s,o,t.first[e+1],n);return r>o&&t.e[r-1]>n?r-1:r}function Co(t,e,{t0:n,w:o,out:r,base:s,width:a,minWidth:c},i,l){let{s:f,
e:u,sum:d,tone:p}=t,m=t.first[e+1],g=1/o,w=n+a*o,b=K(t,e,n),y=0;for(;b<m&&f[b]<w&&y<a;){let k=(f[b]-n)*g;k>y&&(y=Math.floor(k));let P=n+y*o;if(u[b]<=P&&f[b]<P){
b++;continue}if(f[b]<=P&&u[b]>=P+o){let jt=(u[b]-n)*g,Vt=Math.min(a,Math.max(y+1,Math.floor(jt)));r.fill((i[p[b]]|Sc)>>>0,s+y,s+Vt),jt-k>=c&&l(b,k,jt),jt-k>=4&&
Vt<a&&(r[s+Vt-1]=(i[p[b]]|Ec)>>>0),y=Vt,u[b]<=n+y*o&&b++;continue}let R=P+o,I=ie(f,b,m,R);if(I===b){y++;continue}let He=Math.max(0,P-f[b])+Math.max(0,u[I-1]-R),
Zn=(d[I]-d[b]-He)*g,ja=I-b===1?b:$o(t,b,I),Va=To+(255-To)*(Zn>1?1:Zn);r[s+y]=(i[p[ja]]|Math.round(Va)<<24)>>>0,y++,b=u[I-1]>R?I-1:I}}function _o(t,e,[n,o],r){let{
s,e:a,sum:c}=t,i=(o-n)/r.length,l=t.first[e+1],f=K(t,e,n);for(let u=0;u<r.length&&f<l;u++){let d=n+u*i,p=ie(s,f,l,d+i);if(p===f&&!(s[f]<d+i))continue;let m=Math.
max(0,d-s[f])+Math.max(0,a[p-1]-d-i);r[u]+=Math.max(0,c[p]-c[f]-m)/i,f=p>f&&a[p-1]>d+i?p-1:p}}function le(t,e,n,o){let{s:r,e:s,first:a}=t,c=K(t,e,n);if(c<a[e+1]&&
r[c]<=n&&s[c]>n&&s[c]-r[c]>=2*o)return t.at[c];let i=K(t,e,n-o),l=ie(r,i,a[e+1],n+o),f=l<a[e+1]&&r[l]<=n+o?l+1:l;return i<f?t.at[$o(t,i,f)]:-1}var Lo=["device","host"],Cc=400;function _c(t,e){let n={device:new Float32Array(e),host:new Float32Array(e)},o={device:0,host:0};t.data.header.lanes.forEach((r,s)=>{
for(let a=t.index.laneRow[s];a<Math.min(t.index.laneRow[s+1],Cc);a++)_o(t.index,a,t.whole,n[r.kind])});for(let r of Lo){for(let s of n[r])s>o[r]&&(o[r]=s);if(o[r]>
0)for(let s=0;s<e;s++)n[r][s]/=o[r]}return{shares:n,most:o}}function Rc(t,e){let n=document.createElement("canvas"),o=Math.max(1,Math.round(e*t.size.ratio));n.width=
o,n.height=Math.round((A-6)*t.size.ratio);let r=N(n),{shares:s,most:a}=_c(t,o),c=Lo.filter(l=>a[l]>0),i=n.height/Math.max(c.length,1);return c.forEach((l,f)=>{r.
fillStyle=t.tones.css[l==="device"?0:t.hostTone];for(let u=0;u<o;u++){let d=s[l][u]*(i-1);d>0&&r.fillRect(u,(f+1)*i-Math.max(1,d),1,Math.max(1,d))}}),n}function Ro(t,e){
let{gutter:n,width:o}=t.size;return n+(e-t.whole[0])/(t.whole[1]-t.whole[0])*(o-n)}function Ge(t,e){let{gutter:n,width:o}=t.size;return t.whole[0]+(e-n)/(o-n)*(t.
whole[1]-t.whole[0])}function Po(t,e,{width:n,t0:o,t1:r}){let{gutter:s,ratio:a}=e.size,c=`${n} ${a} ${e.mode}`;e.overview?.key!==c&&(e.overview={key:c,picture:Rc(
e,n)}),t.fillStyle=e.colors.gutter,t.fillRect(s,0,n,A),t.drawImage(e.overview.picture,s,3,n,A-6);let i=Math.max(s,Ro(e,o)),l=Math.min(s+n,Ro(e,r));t.fillStyle=e.
colors.bg,t.globalAlpha=.65,t.fillRect(s,0,i-s,A),t.fillRect(l,0,s+n-l,A),t.globalAlpha=1,t.strokeStyle=e.colors.muted,t.lineWidth=1;let f=Math.max(3,l-i);t.strokeRect(
Math.min(i,s+n-f)+.5,.5,f-1,A-1)}var Ke=80;function No(t){let e=new Uint32Array(t.n+1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&e[t.launch[r]+1]++;for(let r=0;r<t.n;r++)e[r+1]+=e[r];let n=new Uint32Array(
e[t.n]),o=e.slice(0,-1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&(n[o[t.launch[r]]++]=r);return{first:e,work:n}}function Xe(t,e,n=Ke){if(t.data.launch[e]>=0)return[
e];let{first:o,work:r}=t.launches;return[...r.subarray(o[e],Math.min(o[e+1],o[e]+n))]}function Ho(t,e,n){let o=new Set;for(let r of[e.hover,e.focused,e.selected])
if(r!==null)for(let s of Xe(e,r))o.add(s);t.globalAlpha=.45;for(let r of Lc(e,n)){let s=e.data.start[e.data.launch[r]];!o.has(r)&&s>=n.t0&&s<=n.t1&&Io(t,e,n,r,1)}
t.globalAlpha=1;for(let r of o)Io(t,e,n,r,1.8)}function Lc(t,e){let{index:n,data:o}=t,r=[],s=0;for(let a of e.parts.flatMap(({lanes:c})=>c))if(o.header.lanes[a].
kind==="device")for(let c=0;c<t.layout.shown[a];c++){let i=n.laneRow[a]+c;for(let l=K(n,i,e.t0);l<n.first[i+1]&&n.s[l]<e.t1;l++){if(s++>4*Ke)return[];if(o.launch[n.
at[l]]>=0&&r.push(n.at[l])>Ke)return[]}}return r}function Io(t,e,n,o,r){let s=ht(e,n,e.data.launch[o])??Pc(e,n,e.data.launch[o]),a=ht(e,n,o);if(s===null||a===null)
return;let c=a.y>s.y,i=s.x+Math.min(s.width/2,12),l=s.y+(c?E-1:0),f=a.y+(c?0:E-1),u=Math.min(60,Math.abs(f-l)/2+8)*(c?1:-1);t.strokeStyle=e.colors.arrow,t.fillStyle=
e.colors.arrow,t.lineWidth=r,t.beginPath(),t.moveTo(i,l),t.bezierCurveTo(i,l+u,a.x,f-u,a.x,f),t.stroke();let d=c?-6:6;t.beginPath(),t.moveTo(a.x,f),t.lineTo(a.x-
3.5,f+d),t.lineTo(a.x+3.5,f+d),t.fill()}function Pc(t,e,n){let o=n;for(;o>=0&&t.rows.row[o]>=t.layout.shown[t.data.lane[o]];)o=t.data.parent[o];let r=o<0?null:ht(
t,e,o);return r&&{x:e.x(t.data.start[n]),y:r.y,width:1}}function Fo(t,e){let n=document.createElement("canvas");return{canvas:t,context:N(t,{alpha:!1}),stripCanvas:n,stripContext:N(n),strip:null,labels:new Array(e.header.
names.length)}}function Do(t,e,n){let{stripCanvas:o,stripContext:r}=t;if(t.strip===null||o.width<e||o.height<n){o.width=e,o.height=Math.max(n,o.height);let s=r.
createImageData(e,o.height);t.strip={image:s,pixels:new Uint32Array(s.data.buffer)}}return t.strip}var je="#e5484d";function zo(t){let e=[0];for(let n of t.header.lanes)e.push(e[e.length-1]+n.count);return(t.header.races??[]).map(n=>({...n,event:Ic(t,n,e)}))}
function Ic(t,{lane:e,at:n,dur:o},r){if(e<0)return-1;for(let s=r[e];s<r[e+1];s++)if(t.start[s]===n&&t.dur[s]===o)return s;return-1}function Bo(t,e,{x:n,t0:o,t1:r}){
t.fillStyle=je;for(let{at:s}of e.races){if(s<o||s>r)continue;let a=Math.round(n(s));t.fillRect(a,M-14,1.5,14),t.beginPath(),t.moveTo(a,M-14),t.lineTo(a+9,M-10.5),
t.lineTo(a,M-7),t.fill()}}var Ve="#d55e00",Uo=8;function Wo(t){let e=t.header.syncs??[];if(!e.length)return[];let n=[0];for(let r of t.header.lanes)n.push(n[n.length-1]+r.count);let o=new Map(
e.map(r=>[`${r.lane} ${r.at} ${r.dur}`,-1]));for(let r of new Set(e.map(s=>s.lane)))for(let s=n[r];s<n[r+1];s++){let a=`${r} ${t.start[s]} ${t.dur[s]}`;o.has(a)&&
o.set(a,s)}return e.map(r=>({...r,event:o.get(`${r.lane} ${r.at} ${r.dur}`)??-1}))}function Go(t,e,{x:n,t0:o,t1:r}){t.fillStyle=Ve;for(let{at:s,dur:a}of e.syncs){
if(s+a<o||s>r)continue;let c=Math.round(n(s));t.fillRect(c,M-Uo/2,Math.max(1.5,n(s+a)-c),Uo/2)}}var Nc=4e3;function Ko(t,e,n){let o=Eo(e),r=Oo(e),s=Qt(dt(e,!0)),a=ce(e,o,r),c=yo(t),i=new Set(e.header.lanes.flatMap((f,u)=>f.is_idle?[u]:[])),l=e.header.lanes.
map((f,u)=>u);return{data:e,options:n,dom:c,painter:Fo(c.canvas,e),rows:o,tone:r,hostTone:Hc(e,a),whole:s,extent:dt(e),view:[...s],index:a,launches:No(e),collapsed:i,
order:l,pinned:new Set,filters:new Map,lanesPanel:null,layout:te(o.heights,i,l),steps:Fc(e),races:zo(e),syncs:Wo(e),marks:[],chosen:null,names:null,search:null,
range:null,selected:null,focused:null,hover:null,hasFocus:!1,focusLane:-1,isArmed:!1,drag:null,held:new Set,pointerX:null,scroll:0,size:{width:0,height:0,gutter:150,
ratio:1},...qe(n.theme??"light"),overview:null,lowerNames:null,script:[],pending:0,beforeFrame:null,isGone:!1,isReleased:!1,cleanups:[]}}function qe(t){let e=D[t],
n=_t(t),o=Number.parseInt(e.dim.slice(1),16),r=((o&255)<<16|o&65280|o>>16)>>>0;return{mode:t,colors:e,tones:n,dimPixels:new Uint32Array(n.pixels.length).fill(r)}}
function T(t,e,n,o,r){e.addEventListener(n,o,r),t.cleanups.push(()=>e.removeEventListener(n,o,r))}function Hc({header:t},{first:e,laneRow:n,tone:o}){let r=t.lanes.
findIndex(({kind:s,count:a})=>s==="host"&&a>0);return r<0?0:o[e[n[r]]]}function Fc(t){let e=new Set(t.header.step_names),n=[];if(!e.size)return n;for(let o=0;o<
t.n;o++)e.has(t.name[o])&&t.header.lanes[t.lane[o]].kind==="host"&&n.push({t0:t.start[o],t1:t.start[o]+t.dur[o]});return n.length>Nc?[]:n.sort((o,r)=>o.t0-r.t0)}var Dc=4,zc={gutter:"pointer",ruler:"col-resize",overview:"ew-resize"};function Bc(t,e){let n=t.getBoundingClientRect();return[e.clientX-n.left,e.clientY-n.top]}
function fe(t,e,n){return e<t.size.gutter?n<M?"corner":"gutter":n<A?"overview":n<M?"ruler":"plot"}function jo(t,e){let{canvas:n}=t.dom,o=r=>Bc(n,r);T(t,n,"point\
erdown",r=>{if(r.button!==0)return;let[s,a]=o(r),c=fe(t,s,a);t.isArmed=!0,n.focus({preventScroll:!0}),n.setPointerCapture(r.pointerId);let i=c==="ruler"||c==="p\
lot"&&r.shiftKey?"range":c;t.drag={kind:i,x:s,y:a,view:[...t.view],scroll:t.scroll,moved:!1,from:e.timeAt(s)},i==="overview"&&e.centre(Ge(t,s))}),T(t,n,"pointer\
move",r=>{let[s,a]=o(r);if(t.drag===null){let c=fe(t,s,a);n.style.cursor=zc[c]??"default",c==="plot"?e.hover(s,a):e.leave()}else Uc(t,e,s,a)}),T(t,n,"pointerup",
r=>{let[s,a]=o(r),{drag:c}=t;t.drag=null,n.style.cursor="default",c!==null&&(c.kind==="range"&&c.moved?e.finishRange():c.kind==="gutter"?c.moved?e.dropLane(c.y,
a):e.toggleLane(a):!c.moved&&c.kind==="range"&&!e.measureTo(s,a)?e.clearRange():!c.moved&&c.kind==="plot"&&e.click(s,a))}),T(t,n,"pointercancel",()=>{t.drag=null}),
T(t,n,"pointerleave",()=>{t.isArmed=t.drag!==null,e.leave()}),T(t,n,"dblclick",r=>{let[s,a]=o(r);fe(t,s,a)==="plot"?e.zoomToEventAt(s,a):fe(t,s,a)!=="gutter"&&e.
fit()}),T(t,n,"wheel",r=>Wc(t,e,r,o(r)),{passive:!1})}function Uc(t,e,n,o){let{drag:r}=t;if(r!==null&&!(!r.moved&&Math.hypot(n-r.x,o-r.y)<Dc))if(r.moved=!0,r.kind===
"plot"){t.dom.canvas.style.cursor="grabbing";let s=(r.view[1]-r.view[0])/(t.size.width-t.size.gutter),a=(n-r.x)*s;e.show([r.view[0]-a,r.view[1]-a]),t.dom.frame.
scrollTop=r.scroll-(o-r.y)}else r.kind==="range"?e.dragRange(r.from,e.timeAt(Math.min(Math.max(n,t.size.gutter),t.size.width))):r.kind==="overview"&&e.centre(Ge(
t,n))}function Wc(t,e,n,[o]){let r=n.deltaMode===1?16:n.deltaMode===2?400:1,[s,a]=[n.deltaX*r,n.deltaY*r],c=n.ctrlKey||n.metaKey;if(!c&&!t.isArmed)return;n.preventDefault();
let i=n.shiftKey&&s===0?a:s;!c&&(n.shiftKey||Math.abs(s)>Math.abs(a))?e.pan(i):e.zoom(Math.exp(Math.min(Math.max(a,-200),200)*(c&&Math.abs(a)<30?.01:.0022)),o)}
var Ye={w:[1,0],s:[-1,0],a:[0,-1],d:[0,1]},Xo={ArrowLeft:"left",ArrowRight:"right",ArrowUp:"up",ArrowDown:"down"};function Vo(t,e){let{canvas:n,search:o}=t.dom;
T(t,n,"keydown",r=>{r.ctrlKey||r.metaKey||r.altKey||Gc(t,e,r)&&(r.preventDefault(),r.stopPropagation())}),T(t,n,"keyup",r=>t.held.delete(r.key.toLowerCase())),T(
t,n,"focus",()=>e.focusChanged(!0)),T(t,n,"blur",()=>{t.held.clear(),t.isArmed=!1,e.focusChanged(!1)}),T(t,o,"input",()=>e.search(o.value)),T(t,o,"keydown",r=>{
if(r.stopPropagation(),r.key==="Enter")e.nextMatch(r.shiftKey?-1:1);else if(r.key==="Escape")o.value="",e.search(""),n.focus({preventScroll:!0});else return;r.preventDefault()})}
function Gc(t,e,n){let o=n.key.length===1?n.key.toLowerCase():n.key;if(o in Ye)e.hold(o);else if(o in Xo)e.arrow(Xo[o]);else if(o==="Enter"||o===" ")e.enter();else if(o===
"f")e.fit();else if(o==="z")e.zoomToFocused();else if(o==="l")e.follow();else if(o==="c")e.toggleFocusLane();else if(o==="p")e.pinFocusLane();else if(o==="/")t.
dom.search.select();else if(o==="n")e.nextMatch(n.shiftKey?-1:1);else if(o==="+"||o==="=")e.zoom(.7,null);else if(o==="-")e.zoom(1/.7,null);else if(o==="Home"||
o==="End")e.toEnd(o==="End");else if(o==="PageUp"||o==="PageDown")t.dom.frame.scrollBy(0,(o==="PageUp"?-.8:.8)*t.size.height);else return o==="Escape"?e.escape():
!1;return!0}function Ze(t){let e=[0,0];for(let n of t)e[0]+=Ye[n][0],e[1]+=Ye[n][1];return e}function qo(t,e,n){let{x:o,t0:r,t1:s,width:a}=n,{gutter:c}=e.size,{ticks:i}=Mo(r,s,a);t.fillStyle=e.colors.line,t.fillRect(c,M-1,a,1),t.textAlign="left";for(let{
t:f,text:u}of i){let d=Math.round(o(f));t.fillStyle=e.colors.line,t.fillRect(d,M-8,1,8),t.fillStyle=e.colors.muted,d+60<e.size.width&&t.fillText(u,d+4,A+Ct/2)}let{
range:l}=e;l!==null&&l[1]>r&&l[0]<s&&Kc(t,e,l,n)}function Kc(t,e,n,{x:o,width:r}){let{gutter:s}=e.size,a=x(n[1]-n[0]),c=t.measureText(a).width+12,i=(o(n[0])+o(n[1]))/
2,l=Math.min(Math.max(i-c/2,s),s+r-c);t.fillStyle=e.colors.tip,t.fillRect(l,A+3,c,Ct-6),t.fillStyle=e.colors.tipText,t.fillText(a,l+6,A+Ct/2)}function Yo(t,e,n){
let{gutter:o,height:r}=e.size;t.fillStyle=e.colors.gutter,t.fillRect(0,0,o,r),t.textAlign="left";for(let s of n.parts){t.save(),t.beginPath(),t.rect(0,s.top,o-1,
s.bottom-s.top),t.clip(),Je(t,e,n,s,0);for(let a of s.lanes)Xc(t,e,n,s,a);t.restore()}t.fillStyle=e.colors.line,t.fillRect(o-1,0,1,r),t.fillRect(0,M-1,o,1);for(let{
bottom:s}of n.parts.slice(1))t.fillRect(0,s-2,e.size.width,2)}function Xc(t,e,n,o,r){let{layout:s,colors:a,size:c}=e,i=e.rows.heights[r]>1,l=E/2+4,f=n.down(r,s.
tops[r])+l,u=n.down(r,s.ends[r])-l,d=Math.round(Math.min(Math.max(f,o.top+l),u));t.fillStyle=a.muted,i&&Vc(t,12,d,e.collapsed.has(r)),t.fillStyle=r===e.focusLane&&
e.hasFocus?a.accent:a.text,t.fillText(qc(t,jc(e,r),c.gutter-32),22,d)}function jc({data:t,filters:e},n){let{label:o}=t.header.lanes[n];return e.has(n)?`${o} (${e.
get(n)?.text})`:o}function Vc(t,e,n,o){let r=o?[[-2.5,-4],[3,0],[-2.5,4]]:[[-4,-2.5],[4,-2.5],[0,3]];t.beginPath();for(let[s,a]of r)t.lineTo(e+s,n+a);t.fill()}function qc(t,e,n){
let o=e.slice(0,100);if(o===e&&t.measureText(o).width<=n)return o;for(;o.length>1&&t.measureText(`${o}\u2026`).width>n;)o=o.slice(0,-1);return`${o}\u2026`}function Je(t,e,{
down:n},{lanes:o},r){t.fillStyle=e.colors.lineSoft;for(let s of o)t.fillRect(r,Math.round(n(s,e.layout.ends[s]))-1,e.size.width-r,1)}var Yc=5,Zo=24;function Jo(t,e,{x:n,t0:o,t1:r}){let{gutter:s,width:a,height:c}=e.size;t.fillStyle=e.colors.accent,t.textAlign="left";for(let{at:i,dur:l,note:f}of e.
marks){if(i+l<o||i>r)continue;let u=Math.max(s,Math.round(n(i))),d=Math.min(a,Math.max(u+2,n(i+l)));t.fillRect(u,A,d-u,Yc),t.globalAlpha=.5,i>=o&&t.fillRect(u,A,
1,c-A),t.globalAlpha=1;let p=f.length>Zo?`${f.slice(0,Zo)}\u2026`:f;if(!p)continue;let m=t.measureText(p).width+8,g=Math.min(u,a-m);t.fillRect(g,A,m,M-A-9),t.fillStyle=
e.colors.bg,t.fillText(p,g+4,A+(M-A-9)/2+.5),t.fillStyle=e.colors.accent}}function Qo({data:t,races:e},n){let{names:o,cats:r,lanes:s}=t.header,c=s[t.lane[n]].kind==="host"&&t.self[n]!==t.dur[n]?`, self ${x(t.self[n])}`:"",i=[o[t.name[n]].
slice(0,400)||"(no name)"],l=Qe(t,n),f=t.name[n+s[t.lane[n]].enclosing-1];l&&i.push(`${l}, the innermost: ${o[f].slice(0,200)}`),i.push(t.flags[n]&C.instant?"in\
stant":`${x(t.dur[n])}${c}`),i.push(`${r[t.cat[n]]||"no category"} \xB7 at ${Jc(t.start[n])}`);let u=t.launch[n];if(u>=0){let p=o[t.name[u]].slice(0,100);i.push(
`launched by ${p}, ${x(t.start[n]-t.start[u])} earlier`)}let d=e.find(({event:p})=>p===n);return d&&i.push(`race: ${d.title}`),i}function Qe(t,e){let{enclosing:n}=t.
header.lanes[t.lane[e]],o=e===0||t.lane[e-1]!==t.lane[e];return n>1&&o?`${n} enclosing frames`:void 0}function ue(t,e){let{names:n,cats:o,lanes:r}=t.header,s=[n[t.
name[e]].slice(0,200)||"no name",o[t.cat[e]]||"no category"];return s.push(t.flags[e]&C.instant?"an instant":`lasts ${x(t.dur[e])}`),s.push(`starts at ${x(t.start[e])}`,
`on ${r[t.lane[e]].label}`),t.launch[e]>=0&&s.push(`launched by ${n[t.name[t.launch[e]]].slice(0,100)}`),s.join(", ")}function tr(t){return t.slice(0,300).replace(
/^void /,"").replaceAll("(anonymous namespace)::","").replaceAll("at::native::","")||t.slice(0,300)}function er(t){return t.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
"")||t}var Zc=[[1e9,"s",9],[1e6,"ms",6],[1e3,"\xB5s",3]];function Jc(t){let[e,n,o]=Zc.find(([r])=>Math.abs(t)>=r)??[1,"ns",0];return`${(t/e).toFixed(o)} ${n}`}var Qc='11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',ti=28;function nr(t){let{painter:e,size:n,colors:o}=t,r=e.context;
r.setTransform(n.ratio,0,0,n.ratio,0,0),r.font=Qc,r.textBaseline="middle",r.fillStyle=o.bg,r.fillRect(0,0,n.width,n.height);let s=J(t);for(let a of s.parts)ei(r,
t,s,a);ui(r,t,s),qo(r,t,s),Jo(r,t,s),Go(r,t,s),Bo(r,t,s),Po(r,t,s),Yo(r,t,s)}function ei(t,e,n,o){let{gutter:r}=e.size;t.save(),t.beginPath(),t.rect(r,o.top,n.width,
o.bottom-o.top),t.clip(),ni(t,e,n),Je(t,e,n,o,r),oi(t,e,n,o),fi(t,e,n),Ho(t,e,n),t.restore()}function ni(t,e,{x:n,t0:o,t1:r}){t.fillStyle=e.colors.band,t.globalAlpha=
e.colors.bandAlpha,e.steps.forEach((s,a)=>{a%2===0&&s.t1>o&&s.t0<r&&t.fillRect(n(s.t0),M,Math.max(1,n(s.t1)-n(s.t0)),e.size.height)}),t.globalAlpha=1}function oi(t,e,n,o){
let{painter:r,size:s}=e,a=ri(e,n,o);if(!a.length)return;let{pixels:c}=n,{image:i,pixels:l}=Do(r,c,a.length);l.fill(0,0,i.width*a.length);let f=a.flatMap(({lane:p,
row:m},g)=>si(e,n,p,m,l,g*i.width));r.stripContext.putImageData(i,0,0,0,0,c,a.length),t.imageSmoothingEnabled=!1;let[u,d]=[s.gutter,c/s.ratio];a.forEach(({lane:p,
row:m},g)=>{let w=Math.round(n.y(p,m));t.drawImage(r.stripCanvas,0,g,c,1,u,w,d,E-1)}),ai(t,e,n,f)}function ri(t,{y:e},{lanes:n,top:o,bottom:r}){let s=[];for(let a of n)
for(let c=0;c<t.layout.shown[a];c++){let i=e(a,c);i>o-E&&i<r&&s.push({lane:a,row:c})}return s}function si(t,e,n,o,r,s){let{index:a,chosen:c,tones:i}=t,l=ti*t.size.
ratio,f=e.y(n,o),u={t0:e.t0,w:e.w,width:e.pixels,out:r,base:s,minWidth:l},d=[],p=(m,g,w)=>Co(m,a.laneRow[n]+o,u,g,(b,y,k)=>{w?.[m.at[b]]||d.push({i:m.at[b],tone:m.
tone[b],x0:y,x1:k,y:f,isDim:w!==null})});return c===null?p(a,i.pixels,null):(p(a,t.dimPixels,c.keep),p(c.index,i.pixels,null)),d}function ai(t,e,n,o){let{ratio:r,
gutter:s}=e.size;t.textAlign="left";for(let{i:a,tone:c,x0:i,x1:l,y:f,isDim:u}of o){let d=Math.max(0,i)/r,p=Math.min(n.width,l/r)-d-8,m=Qe(e.data,a)??ci(t,e,e.data.
name[a],p);m&&(t.fillStyle=u?e.colors.muted:e.tones.ink[c],t.fillText(m,Math.round(s+d+4),Math.round(f)+E/2))}}function ci(t,e,n,o){let{labels:r}=e.painter,s=r[n]??
li(t,e.data.header,n);if(r[n]=s,s.width<=o)return s.text;if(s.shortWidth<=o)return s.short;let a=Math.floor(s.short.length*o/s.shortWidth);for(;a>=2&&ii(t,s,a)>
o;)a--;return a<2?"":`${s.short.slice(0,a)}\u2026`}function ii(t,e,n){return e.cuts[n]??=t.measureText(`${e.short.slice(0,n)}\u2026`).width,e.cuts[n]}function li(t,e,n){
let o=e.short[n],r=o??tr(e.names[n]),s=o??er(r);return{text:r,short:s,cuts:[],width:t.measureText(r).width,shortWidth:t.measureText(s).width}}function fi(t,e,n){
for(let{event:o}of e.syncs)o>=0&&Lt(t,e,n,o,Ve,1.5);for(let{event:o}of e.races)o>=0&&Lt(t,e,n,o,je,2.5);e.hover!==null&&e.hover!==e.selected&&Lt(t,e,n,e.hover,e.
colors.text,1),e.selected!==null&&Lt(t,e,n,e.selected,e.colors.accent,2.5),e.focused!==null&&e.focused!==e.selected&&e.hasFocus&&Lt(t,e,n,e.focused,e.colors.text,
2,[4,2])}function Lt(t,e,n,o,r,s,a=[]){let c=ht(e,n,o);if(c===null)return;t.strokeStyle=r,t.lineWidth=s,t.setLineDash(a);let i=Math.max(c.x,e.size.gutter-4);t.strokeRect(
i,c.y,Math.max(2,Math.min(c.x+c.width,e.size.width+4)-i),E-1),t.setLineDash([])}function ui(t,e,{x:n,width:o}){if(e.range===null)return;let{gutter:r,height:s}=e.
size,a=l=>Math.min(Math.max(l,r),r+o),[c,i]=e.range.map(l=>a(n(l)));i<=r||c>=r+o||(t.fillStyle=e.colors.accent,t.globalAlpha=e.colors.rangeAlpha,t.fillRect(c,A,
i-c,s-A),t.globalAlpha=1,c>r&&t.fillRect(c-.5,A,1,s),i<r+o&&t.fillRect(i-.5,A,1,s))}function or(t){let e=new Uint8Array(D.groups.length);for(let n of t.index.tone)
e[n/W|0]=1;return D.groups.flatMap((n,o)=>e[o]?[[n.label,t.tones.css[o*W]]]:[])}var rr=2e3;function wt(t){if(t.isReleased)return;let{frame:e,stage:n,canvas:o}=t.dom,r=Math.max(1,e.clientWidth),s=Math.max(M+E,e.clientHeight),a=window.devicePixelRatio||
1;n.style.height=`${Math.max(s,Math.ceil(t.layout.total+M))}px`;let{size:c}=t;c.width!==r||c.height!==s||c.ratio!==a?(t.size={width:r,height:s,ratio:a,gutter:Math.
round(Math.min(188,Math.max(132,r*.2),r*.35))},o.width=Math.round(r*a),o.height=Math.round(s*a),o.style.width=`${r}px`,o.style.height=`${s}px`,de(t)):S(t)}function ar(t,e){
if(t.isReleased!==e)return;if(t.isReleased=!e,e){t.size={...t.size,width:0},wt(t);return}let{canvas:n}=t.dom;for(let o of[n,t.painter.stripCanvas])o.width=o.height=
0;t.painter.strip=null,t.overview=null}function de(t){if(t.isReleased)return;let e=performance.now();t.scroll=t.dom.frame.scrollTop,nr(t),t.script.push(performance.
now()-e),t.script.length>rr&&t.script.splice(0,rr/2)}function S(t){t.pending||t.isGone||(t.pending=requestAnimationFrame(e=>{t.pending=0,!t.isGone&&(t.beforeFrame?.(
e),de(t))}))}function gt(t,e){let n=We(e,t.extent);n[0]===t.view[0]&&n[1]===t.view[1]||(t.view=n,t.options.onTime?.([...n]),S(t))}function ot(t,e){let n=We(e,t.
extent);if(t.held.clear(),matchMedia("(prefers-reduced-motion: reduce)").matches){gt(t,n);return}let o=t.view,r=null;t.beforeFrame=s=>{r??=s;let a=Math.min(1,(s-
r)/180),c=1-(1-a)**3;gt(t,a<1?[o[0]+(n[0]-o[0])*c,o[1]+(n[1]-o[1])*c]:n),a>=1?t.beforeFrame=null:S(t)},S(t)}function bt(t){let{data:e,names:n,search:o,filters:r}=t;
if(n===null&&o===null&&!r.size)t.chosen=null;else{let s=new Uint8Array(e.header.names.length);for(let i=0;i<s.length;i++)s[i]=+((n===null||n.has(i))&&(o===null||
o.isHit[i]));let a=new Uint8Array(e.n),c=e.header.lanes.map((i,l)=>r.get(l)?.isHit??null);for(let i=0;i<e.n;i++)a[i]=s[e.name[i]]&(c[e.lane[i]]?.[e.name[i]]??1);
t.chosen={keep:a,index:ce(e,t.rows,t.tone,a)}}S(t)}function tn(t){let{rows:e,collapsed:n,order:o,pinned:r}=t;t.layout=te(e.heights,n,o,r.size),wt(t)}function rt(t){
t.options.onSelect?.({range:t.range&&[...t.range],event:t.selected,names:t.names&&new Set(t.names)})}function st(t,e,n=!1){let{data:o,view:r,dom:s,layout:a}=t;s.
tip.hidden=!0,t.hover=null;let c=ae(o,t.rows,e),[i,l]=[o.start[c],o.start[c]+o.dur[c]],f=o.lane[c];t.rows.row[c]>=a.shown[f]&&t.collapsed.delete(f)&&tn(t);let u=ee(
t.layout,f,t.rows.row[c]),d=t.size.height-M,p=ne(t),m=u<p;!m&&u<t.scroll+p?s.frame.scrollTop=u-p-8:!m&&u+E>t.scroll+d&&(s.frame.scrollTop=u+E+8-d);let g=r[1]-r[0],
w=g/(t.size.width-t.size.gutter);n?ot(t,sr(i,l,4)):l-i<3*w?ot(t,sr(i,l,30)):(l<r[0]+g*.02||i>r[1]-g*.02)&&ot(t,[(i+l-g)/2,(i+l+g)/2]),S(t)}function sr(t,e,n){let o=e>
t?(e-t)*n/2:500;return[(t+e)/2-o,(t+e)/2+o]}function Pt(t,e){e<0||(t.focused=e,t.focusLane=t.data.lane[e],t.dom.spoken.textContent=ue(t.data,e),st(t,e))}function di(t,e){let n=t.index.laneRow[t.data.lane[e]]+t.rows.row[e],o=K(t.index,n,t.data.start[e]);for(;o<t.index.first[n+1]&&t.index.at[o]!==e;)o++;return{r:n,
p:o}}function cr(t,e,n){let o=ae(t.data,t.rows,e);if(n==="left"||n==="right"){let{r:c,p:i}=di(t,o),l=n==="left"?i-1:i+1;return l>=t.index.first[c]&&l<t.index.first[c+
1]?t.index.at[l]:o}let r=t.data.lane[o],s=t.rows.row[o]+(n==="up"?-1:1),a=t.data.start[o]+t.data.dur[o]/2;if(s>=0&&s<t.layout.shown[r]){let c=n==="up"?t.data.start[o]:
a,i=en(t,r,s,c,n==="up"?0:t.data.dur[o]/2);if(i>=0)return i}return hi(t,r,n==="up"?-1:1,a)??o}function hi(t,e,n,o){let{order:r}=t.layout;for(let s=r.indexOf(e)+
n;s>=0&&s<r.length;s+=n){let a=en(t,r[s],0,o,1/0);if(a>=0)return a}return null}function en(t,e,n,o,r){let{index:s}=t,a=s.laneRow[e]+n,c=le(s,a,o,0);if(c>=0)return c;
let i=K(s,a,o),l=-1,f=r;for(let u of[i-1,i]){if(u<s.first[a]||u>=s.first[a+1])continue;let d=Math.max(s.s[u]-o,o-s.e[u],0);d<=f&&(l=s.at[u],f=d)}return l}function ir(t,e){
return t.data.launch[e]>=0?t.data.launch[e]:Xe(t,e,1)[0]??e}function lr(t,e){let n=(t.view[0]+t.view[1])/2;for(let o of e){let r=en(t,o,0,n,1/0);if(r>=0)return r}
return-1}function fr(t,e){if(!e.trim())return null;let n=nn(t,e),o=0;for(let r=0;r<t.data.n;r++)o+=n[t.data.name[r]];return{isHit:n,count:o,at:-1}}function nn(t,e){
let n=e.trim().toLowerCase();return t.lowerNames??=t.data.header.names.map(o=>o.toLowerCase()),Uint8Array.from(t.lowerNames,o=>+o.includes(n))}function ur({data:t,
view:e},n,o){let r=n.at,s=(f,u)=>t.start[f]<t.start[u]||t.start[f]===t.start[u]&&f<u,a=-1,c=-1;for(let f=0;f<t.n;f++){if(!n.isHit[t.name[f]])continue;let u=o>0?
s:(p,m)=>s(m,p);(c<0||u(f,c))&&(c=f),(r>=0?u(r,f):o>0?t.start[f]>=e[0]:t.start[f]<=e[1])&&(a<0||u(f,a))&&(a=f)}let i=a>=0?a:c,l=0;if(i>=0)for(let f=0;f<t.n;f++)
l+=n.isHit[t.name[f]]&&!s(i,f)?1:0;return{found:i,ordinal:l}}function It(t,e){e<0||t.rows.heights[e]<2||(t.collapsed.delete(e)||t.collapsed.add(e),on(t,e,t.collapsed.has(e)?"folded":"unfolded"))}function he(t,e){let{order:n,
pinned:o}=t;e<0||(n.splice(n.indexOf(e),1),o.delete(e)?n.splice(o.size,0,e):(n.splice(o.size,0,e),o.add(e)),on(t,e,o.has(e)?"pinned":"no longer pinned"))}function Nt(t,e,n){
let{order:o,pinned:r}=t;if(e<0)return;let[s,a]=r.has(e)?[0,r.size-1]:[r.size,o.length-1];o.splice(o.indexOf(e),1),o.splice(Math.min(Math.max(n,s),a),0,e),on(t,e,
`is lane ${o.indexOf(e)+1} of ${o.length}`)}function dr(t,e,n){n.trim()?t.filters.set(e,{text:n.trim(),isHit:nn(t,n)}):t.filters.delete(e),bt(t)}function on(t,e,n){
t.dom.spoken.textContent=`${t.data.header.lanes[e].label} ${n}`,tn(t),t.lanesPanel?.update()}function Ht(t,e){t.beforeFrame=null,gt(t,e)}function pe(t,e){let{size:n,view:o}=t,r=e/(n.width-n.gutter)*(o[1]-o[0]);Ht(t,[o[0]+r,o[1]+r])}function rn(t,e,n){let{
size:o,view:r}=t,s=n===null?.5:Math.min(Math.max((n-o.gutter)/(o.width-o.gutter),0),1),a=r[0]+s*(r[1]-r[0]);Ht(t,[a+(r[0]-a)*e,a+(r[1]-a)*e])}function hr(t,e){let n=(t.
view[1]-t.view[0])/2;Ht(t,[e-n,e+n])}function pr(t,e){let{extent:n,view:o}=t,r=o[1]-o[0],s=r*.02,a=e?n[1]+s-r:n[0]-s;ot(t,[a,a+r])}var pi=3;function gr(t){return{...mi(t),...gi(t),...wi(t)}}function mi(t){return{show:e=>Ht(t,e),pan:e=>pe(t,e),zoom:(e,n)=>rn(t,e,n),centre:e=>hr(t,e),fit:()=>ot(
t,t.whole),toEnd:e=>pr(t,e)}}function gi(t){return{timeAt:e=>wr(t,e),hover:(e,n)=>bi(t,e,n),leave(){t.pointerX=null,br(t,null)},click:(e,n)=>yi(t,e,n),zoomToEventAt(e,n){
let o=me(t,e,n);o!==null&&st(t,o,!0)},dragRange(e,n){t.range=[Math.min(e,n),Math.max(e,n)],S(t)},finishRange:()=>rt(t),measureTo(e,n){let[o,r]=[t.selected,me(t,
e,n)];return o===null||r===null||o===r?!1:(t.range=mo(t.data,o,r),t.selected=null,rt(t),S(t),!0)},clearRange(){t.range!==null&&(t.range=null,rt(t),S(t))},toggleLane:e=>It(
t,nt(t.layout,oe(t,e))),dropLane(e,n){let[o,r]=[e,n].map(s=>nt(t.layout,oe(t,s)));Nt(t,o,r<0?n<M?0:t.order.length-1:t.order.indexOf(r))}}}function wi(t){return{
zoomToFocused(){let e=t.focused??t.selected;e!==null&&st(t,e,!0)},toggleFocusLane:()=>It(t,mr(t)),pinFocusLane:()=>he(t,mr(t)),arrow(e){t.focused!==null?Pt(t,cr(
t,t.focused,e)):e==="left"||e==="right"?pe(t,(e==="left"?-1:1)*80):t.dom.frame.scrollBy(0,(e==="up"?-2:2)*E)},enter(){let{focused:e}=t;e===null?Pt(t,lr(t,xr(t))):
yr(t,e)},follow(){t.focused!==null&&Pt(t,ir(t,t.focused))},escape:()=>xi(t),search:e=>ge(t,e),nextMatch:e=>vi(t,e),hold:e=>Mi(t,e),focusChanged(e){t.hasFocus=e,
S(t)}}}function wr(t,e){let n=J(t);return n.t0+(e-t.size.gutter)/n.scale}function me(t,e,n){let{index:o,layout:r,size:s}=t,a=ko(r,oe(t,n));if(a===null||e<s.gutter||
n<M)return null;let c=pi/J(t).scale,i=le(o,o.laneRow[a.lane]+a.row,wr(t,e),c);return i<0?null:i}function bi(t,e,n){let{dom:o}=t;t.pointerX=e;let r=me(t,e,n);r!==
null&&vo(o,Qo(t,r),e+o.frame.offsetLeft,n+o.frame.offsetTop),br(t,r)}function br(t,e){e===null&&(t.dom.tip.hidden=!0),e!==t.hover&&(t.hover=e,t.options.onHover?.(
e),S(t))}function yi(t,e,n){let o=me(t,e,n);t.focused=o,o===null&&(t.range=null),yr(t,o)}function yr(t,e){t.selected=e,e!==null&&(t.dom.spoken.textContent=`sele\
cted ${ue(t.data,e)}`),rt(t),S(t)}function xr(t){let e=J(t).parts.reverse().flatMap(({lanes:n})=>n);return[...e,...t.order.slice(t.order.indexOf(e[e.length-1])+
1)]}function mr(t){return t.focusLane>=0?t.focusLane:xr(t)[0]??-1}function xi(t){if(t.search!==null)t.dom.search.value="",ge(t,"");else if(t.focused!==null&&t.focused!==
t.selected)t.focused=null;else if(t.selected!==null||t.range!==null)Object.assign(t,{selected:null,range:null,focused:null}),rt(t);else return!1;return t.isArmed=
!1,S(t),!0}function ge(t,e){let n=fr(t,e);return t.search=n,t.dom.matches.textContent=n&&`${O(n.count)} ${n.count===1?"match":"matches"}`,bt(t),n?.count??0}function vi(t,e){
let{search:n}=t;if(n===null||n.count===0)return;let{found:o,ordinal:r}=ur(t,n,e);n.at=o,t.dom.matches.textContent=`${O(r)} of ${O(n.count)}`,t.selected=o,Pt(t,o),
rt(t)}function Mi(t,e){let n=([s,a],c)=>{s&&rn(t,Math.exp(-s*2.2*c),t.pointerX),a&&pe(t,a*900*c)};if(matchMedia("(prefers-reduced-motion: reduce)").matches){n(Ze(
[e]),.12);return}if(t.held.has(e))return;t.held.add(e);let o=null,r=s=>{let a=o===null?.016666666666666666:Math.min(.05,(s-o)/1e3);o=s,n(Ze(t.held),a),t.beforeFrame=
t.held.size?r:null,t.held.size&&S(t)};t.beforeFrame=r,S(t)}function vr(t){let{lanesButton:e,lanes:n}=t.dom;T(t,e,"click",()=>{t.lanesPanel??=ki(t),n.hidden=!n.hidden,e.setAttribute("aria-expanded",String(!n.hidden)),t.lanesPanel.
update()})}function ki(t){let e=t.data.header.lanes.map((o,r)=>Ai(t,r)),n=h("ul",{"aria-label":"Lanes"});return t.dom.lanes.replaceChildren(n),{update(){let{activeElement:o}=document;
n.append(...t.order.map(r=>e[r].node));for(let r of e)r.update();o instanceof HTMLElement&&n.contains(o)&&o.focus()}}}function Ai(t,e){let{label:n}=t.data.header.
lanes[e],o=(f,u,d)=>h("button",{type:"button",title:u,"aria-label":`${u}: ${n}`,onclick:d},f),r=o("Pin","Pin on top",()=>he(t,e)),s=o("\u2191","Move up",()=>Nt(
t,e,t.order.indexOf(e)-1)),a=o("\u2193","Move down",()=>Nt(t,e,t.order.indexOf(e)+1)),c=o("Fold","Fold to one row",()=>It(t,e));c.disabled=t.rows.heights[e]<2;let i=h(
"input",{type:"search",placeholder:"Filter names","aria-label":`Filter names: ${n}`});i.addEventListener("input",()=>dr(t,e,i.value));for(let f of[r,s,a,c,i])f.
setAttribute("data-lm-suppress-shortcuts","true");let l=h("span",{class:"cltl-lane",title:n},n);return{node:h("li",{},r,s,a,c,l,i),update(){r.setAttribute("aria\
-pressed",String(t.pinned.has(e))),c.setAttribute("aria-pressed",String(t.collapsed.has(e)))}}}var Ti=460,Si=150,Ei="800px 0px";function kr(t,e,n={}){let o=Ko(t,e,n),r=gr(o);jo(o,r),Vo(o,r),$i(o,r),Ar(o,o.mode),Oi(o),wt(o);let s=new ResizeObserver(()=>wt(
o));s.observe(o.dom.frame);let a=new IntersectionObserver(c=>ar(o,c[c.length-1].isIntersecting),{rootMargin:Ei});return a.observe(o.dom.frame),o.cleanups.push(()=>s.
disconnect(),()=>a.disconnect()),de(o),Ci(o,r)}function Ar(t,e){Object.assign(t,qe(e)),bo(t.dom.host,t.colors),xo(t.dom,or(t)),S(t)}function Oi({dom:t,layout:e,
options:n}){let o=n.height??Math.min(Ti,Math.max(Si,e.total+M));t.frame.style.height=`${Math.round(o)+2}px`}function $i(t,e){let{dom:n}=t;T(t,n.zoomIn,"click",()=>e.
zoom(.5,null)),T(t,n.zoomOut,"click",()=>e.zoom(2,null)),T(t,n.fit,"click",e.fit),vr(t),T(t,n.next,"click",()=>e.nextMatch(1)),T(t,n.previous,"click",()=>e.nextMatch(
-1)),T(t,n.frame,"scroll",()=>S(t),{passive:!0})}function Ci(t,e){return{setTheme:n=>Ar(t,n),fit:e.fit,zoomTo:(n,o)=>e.show([n,o]),getView:()=>[...t.view],select(n=null){
t.selected=n,n!==null&&st(t,n),S(t)},setRange(n,o=null){t.range=n===null||o===null?null:[n,o],S(t)},setNames(n){t.names=n===null?null:new Set(n),bt(t)},raceOf:n=>t.
races.find(o=>o.event===n&&n!==null)?.race??null,showRace:n=>Mr(t,t.races.find(o=>o.race===n)),showSync:n=>Mr(t,t.syncs.find(o=>o.group===n)),setMarks(n){t.marks=
n,S(t)},search(n){return t.dom.search.value=n,ge(t,n)},focus:()=>t.dom.canvas.focus({preventScroll:!0}),resize:()=>wt(t),boxOf:n=>Ri(t,n),stats:()=>({frames:t.script.
length,script:[...t.script]}),destroy:()=>_i(t)}}function _i(t){t.isGone=!0,cancelAnimationFrame(t.pending);for(let e of t.cleanups.splice(0))e();t.dom.host.remove()}
function Mr(t,e){if(e){if(e.event>=0)t.focused=e.event,st(t,e.event);else if(e.at<t.view[0]||e.at>t.view[1]){let n=(t.view[1]-t.view[0])/2;gt(t,[e.at-n,e.at+n])}
S(t)}}function Ri(t,e){let n=J(t),o=t.data.lane[e];if(t.rows.row[e]>=t.layout.shown[o])return null;let r=n.x(t.data.start[e]),s=t.data.dur[e]*n.scale;return{x:r,
y:n.y(o,t.rows.row[e]),width:s,height:E-1}}function Li(t,e){let n=t.header.lanes[t.lane[e]],o=[["Kind",t.header.cats[t.cat[e]]],["Start",x(t.start[e])],["Duration",x(t.dur[e])]];return n.kind==="host"&&t.
self[e]!==t.dur[e]&&o.push(["Self time",x(t.self[e])]),o.push([n.kind==="device"?"Stream":"Thread",n.label]),t.launch[e]>=0&&o.push(...Pi(t,e)),o.push(...Fi(t,e)),
o.push(...Ni(t,e)),o.push(["Row",`trace.events.iloc[${t.rowOf(e)}]`]),o}function Pi(t,e){let n=t.launch[e];return[["Launched by",t.header.names[t.name[n]]],["Wa\
ited",x(t.start[e]-t.start[n])]]}var Ii=60;function Ni(t,e){let n=[],o=t.detailOf("stack"),r=[],s=o(e),a=s!==null;for(let c=t.launch[e]>=0?t.launch[e]:t.parent[e];c>=
0;c=t.parent[c])s??=o(c),r.length<Ii&&r.push(U(t.header,t.name[c]));return s!==null&&!a&&n.push(["Call stack",String(s)]),r.length&&n.push(["Called from",r.join(
`
`)]),n}var Hi={shapes:"Input shapes",dtypes:"Input dtypes",module:"Module",grid:"Grid",block_dim:"Block",registers:"Registers a thread",shared_memory_bytes:"Sha\
red memory",blocks_per_sm:"Blocks per SM",warps_per_sm:"Warps per SM",occupancy_pct:"Occupancy",num_bytes:"Bytes",flops:"FLOPs",step:"Step",correlation_id:"Corr\
elation id",external_id:"External id",sequence_nr:"Sequence number",graph_id:"CUDA graph",graph_node_id:"Graph node",collective:"Collective",process_group:"Proc\
ess group",stack:"Call stack"};function Fi(t,e){let n=[];for(let[o,r]of Object.entries(t.detail(e)))r===null||r===""||n.push([Hi[o]??o,Di(o,r)]);return n}function Di(t,e){
return t.endsWith("_bytes")?v(Number(e)):t==="occupancy_pct"?`${e} %`:typeof e=="number"?O(e):String(e)}function Tr(t,e,n){if(n===null){t.replaceChildren();return}
let o=h("dl",{class:"cl-facts"});for(let[r,s]of Li(e,n))o.append(h("dt",{},r),h("dd",{},s));t.replaceChildren(h("h3",{"aria-level":2,class:"cl-event"},e.header.
names[e.name[n]]),o)}var zi=500;function Sr(t,e,{onChange:n,onShow:o}){let r=h("ul",{class:"cl-mark-list","aria-label":"Marks"});t.replaceChildren(r);let s=l=>{a(l),n(l)},a=l=>{i.marks=
[...l].sort((f,u)=>f.at-u.at),t.hidden=l.length===0,r.replaceChildren(...i.marks.map(c))},c=l=>{let f=l.note||"(no note)",u=l.dur?`${x(l.at)}, ${x(l.dur)} long`:
x(l.at),d=()=>s(i.marks.filter(p=>p!==l));return h("li",{},h("button",{class:"cl-mark",type:"button",title:u,onclick:()=>o(l)},f),h("span",{class:"cl-hint"},u),
h("button",{type:"button","aria-label":`Remove the mark ${f}`,onclick:d},"\xD7"))},i={marks:[],add:l=>s([...i.marks,l]),replace:a};return a(e),i}function Er(t,{
range:e,event:n},o){let r=e??(n===null?null:Bi(t,n));if(r===null)return[];let s=h("input",{class:"cl-note",type:"text",maxlength:zi,placeholder:"Note","aria-lab\
el":"Note of the mark","data-lm-suppress-shortcuts":"true"}),a=()=>{o({at:Math.round(r[0]),dur:Math.round(r[1]-r[0]),note:s.value.trim()}),s.value=""};return s.
addEventListener("keydown",c=>{c.stopPropagation(),c.key==="Enter"&&a()}),[s,h("button",{class:"cl-button",type:"button",title:"Mark the selected time",onclick:a},
"Mark")]}function Bi({start:t,dur:e},n){return[t[n],t[n]+e[n]]}var Ui={light:["#0b62c4","#b35c00","#6f42c1","#00796b","#b02f78","#5a7a0a","#a3301f"],dark:["#6cb6ff","#f0a050","#c4a5ff","#5fd0c0","#f08cc4","#b5d35a","#ff9a8a"]},
Wi={light:"#4f6673",dark:"#a9bfca"};function yt(t,e){let n=t.startsWith("cpu")?null:/\d+$/.exec(t),o=Ui[e];return n?o[Number(n[0])%o.length]:Wi[e]}function Or({ts:t,values:e},[n,o]){let[r,s]=[0,t.length];for(;r+1<t.length&&t[r+1]<n;)r+=1;for(;s-2>r&&t[s-2]>o;)s-=1;return Gi(t.subarray(r,s),e.subarray(r,s))}
function Gi(t,e){let n=t.length;if(n<=4e3)return{ts:Array.from(t),values:Array.from(e)};let o=[0],r=(n-2)/(4e3/2-1);for(let s=0;s*r<n-2;s++){let[a,c]=[1+Math.floor(
s*r),Math.min(n-1,1+Math.floor((s+1)*r))],[i,l]=[a,a];for(let f=a;f<c;f++)e[f]<e[i]&&(i=f),e[f]>e[l]&&(l=f);a<c&&o.push(Math.min(i,l),...i===l?[]:[Math.max(i,l)])}
return o.push(n-1),{ts:o.map(s=>t[s]),values:o.map(s=>e[s])}}var Lr={light:{range:"#0b62c4",text:"#57606a",grid:"#d9dee4",fill:.14},dark:{range:"#6cb6ff",text:"#9aa5b1",grid:"#30363d",fill:.2}},Ki=[[2**30,"GiB"],[2**20,"M\
iB"],[2**10,"KiB"],[1,"B"]],Xi=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"],[1,"ns"]],$r={displayModeBar:!1,responsive:!1,doubleClick:!1,showTips:!1};function sn(t){return Math.
max(56,Math.round(Math.min(188,Math.max(132,t*.2),t*.35))-1)}function Pr(t,e,{Plotly:n,theme:o,view:r,onRange:s}){let a=h("div",{class:"cl-plot"});t.replaceChildren(
a);let c=e.map(ji),i=Cr(r[1]-r[0],Xi),l=Cr(Math.max(...c.map(m=>m.value),1),Ki),f={root:a,series:e,peaks:c,time:i,bytes:l,theme:o,range:null,view:r,width:0},u=n.
newPlot(a,_r(f),Rr(f),$r).then(m=>{m.on("plotly_selected",g=>{g?.range&&s(Vi(g.range.x,i[0]))}),m.on("plotly_deselect",()=>s(null)),m.on("plotly_doubleclick",()=>s(
null))}),d=async()=>{await u,a.isConnected&&await n.react(a,_r(f),Rr(f),$r)},p=m=>(Object.assign(f,m),d());return{ready:u,setRange:m=>p({range:m}),setView:m=>p(
{view:m}),setTheme:m=>p({theme:m}),async resize(){await d(),a.isConnected&&a.clientWidth&&n.Plots.resize(a)},destroy:()=>u.then(()=>n.purge(a))}}function ji({ts:t,
values:e}){let n=0;for(let o=1;o<e.length;o++)e[o]>e[n]&&(n=o);return{ts:t[n],value:e[n]}}function Cr(t,e){return e.find(([n])=>t>=n)??e[e.length-1]}function Vi(t,e){
let[n,o]=t.map(r=>r*e);return n===o?null:[Math.min(n,o),Math.max(n,o)]}function _r({series:t,view:e,theme:n,time:o,bytes:r}){return t.map(s=>{let a=Or(s,e),c=yt(
s.label,n);return{type:"scatter",mode:"lines",name:s.label,x:a.ts.map(i=>i/o[0]),y:a.values.map(i=>i/r[0]),line:{shape:"hv",width:1.5,color:c},fill:t.length===1?
"tozeroy":"none",fillcolor:`rgba(${pt(c).join(",")},${Lr[n].fill})`,text:a.values.map((i,l)=>`${v(i)} at ${x(a.ts[l])}`),hoverinfo:"text+name"}})}function Rr(t){
let{range:e,view:n,time:o,bytes:r}=t;t.width=t.root.clientWidth||t.width;let{text:s,grid:a,range:c}=Lr[t.theme],i={gridcolor:a,zerolinecolor:a,linecolor:a,tickcolor:a,
fixedrange:!0,separatethousands:!0};return{height:200,margin:{l:sn(t.width),r:1,t:22,b:34},paper_bgcolor:"rgba(0,0,0,0)",plot_bgcolor:"rgba(0,0,0,0)",font:{color:s,
size:11,family:"inherit"},dragmode:"select",selectdirection:"h",showlegend:t.series.length>1,legend:{orientation:"h",x:0,y:1.18},hovermode:"closest",newselection:{
line:{color:s,width:1}},xaxis:{...i,range:n.map(l=>l/o[0]),ticksuffix:` ${o[1]}`},yaxis:{...i,rangemode:"tozero",ticksuffix:` ${r[1]}`},shapes:e===null?[]:[Yi(e,
c,o[0])],annotations:qi(t)}}function qi({series:t,peaks:e,view:n,theme:o,time:r,bytes:s}){return e.map((a,c)=>{let i=yt(t[c].label,o);return{x:a.ts/r[0],y:a.value/
s[0],text:`peak ${v(a.value)}`,showarrow:!0,arrowhead:0,arrowwidth:1,ax:a.ts>(n[0]+n[1])/2?-44:44,ay:-10,bgcolor:"rgba(0,0,0,0)",font:{color:i,size:11},arrowcolor:i}})}
function Yi([t,e],n,o){return{type:"rect",xref:"x",yref:"paper",x0:t/o,x1:e/o,y0:0,y1:1,fillcolor:n,opacity:.18,line:{width:1,color:n},layer:"below"}}var Ft=44,Ir=8,Zi=2e3;function Nr({unit:t,column:e},n){return n===void 0||Number.isNaN(n)?"-":e.endsWith("_bytes")?v(n):t==="%"?L(n):`${Math.round(n).toLocaleString(
"en-US")} ${t}`}function an(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function Hr(t,e=0){return t.reduce((n,o)=>o>n?o:n,e)}
function Fr(t,e,n,{theme:o,view:r}){let a=n.filter(({column:g})=>e.some(({values:w})=>w[g].some(b=>!Number.isNaN(b)))).map(g=>({gauge:g,largest:g.full??Math.max(
...e.map(({values:w})=>Hr(w[g.column])),1e-9)})),c=h("p",{class:"cl-metrics-legend"}),l=F("svg",{class:"cl-metrics-plot",role:"img","aria-label":"Readings of th\
e GPUs over time"}),f=h("p",{class:"cl-metrics-tip cl-hint","aria-live":"off"}),u=F("path",{class:"cl-metrics-cursor",fill:"none"});t.replaceChildren(c,l,f);let d=`\
cl-metrics-${Math.random().toString(36).slice(2)}`,p=a.length*(Ft+Ir),m={host:t,devices:e,rows:a,id:d,height:p,legend:c,plot:l,cursor:u,tip:f,theme:o,view:r,width:0};
return l.addEventListener("pointermove",g=>tl(m,g)),l.addEventListener("pointerleave",()=>zr(m)),we(m),{setView(g){m.view=g,we(m)},setTheme(g){m.theme=g,we(m)},
resize:()=>we(m),destroy:()=>t.replaceChildren()}}function Dr(t){let e=Math.max(t.host.clientWidth||t.width,200);t.width=e;let n=sn(e),o=e-n-1,[r,s]=t.view;return{
width:e,gutter:n,inner:o,x:a=>n+(a-r)/(s-r)*o}}function we(t){let{devices:e,height:n,id:o,legend:r,plot:s}=t,a=Dr(t),c=e.length>1?e.map(({label:f})=>f):[];r.replaceChildren(
...c.map(f=>h("span",{style:`color:${yt(f,t.theme)}`},f)));let i=F("rect",{x:a.gutter,y:0,width:a.inner,height:n}),l=t.rows.map((f,u)=>Ji(t,u,a));s.setAttribute(
"width",String(a.width)),s.setAttribute("height",String(n)),s.setAttribute("viewBox",`0 0 ${a.width} ${n}`),s.replaceChildren(F("clipPath",{id:o},i),...l,t.cursor)}
function Ji({devices:t,rows:e,id:n,theme:o,view:r},s,{width:a,gutter:c,x:i}){let{gauge:l,largest:f}=e[s],u=s*(Ft+Ir),d=g=>u+Ft-(Ft-3)*Math.min(g/f,1),p=Math.max(
...t.map(({values:g})=>Hr(g[l.column]))),m=t.map(({label:g,ts:w,values:b})=>F("path",{d:Qi(w,b[l.column],r,i,d),fill:"none",stroke:yt(g,o),"stroke-width":1.4}));
return F("g",{},F("text",{x:0,y:u+16},l.title),F("text",{x:0,y:u+31,class:"cl-metrics-muted"},`up to ${Nr(l,p)}`),F("path",{d:`M${c} ${u+Ft}H${a-1}`,class:"cl-m\
etrics-base"}),F("g",{"clip-path":`url(#${n})`},...m))}function Qi(t,e,[n,o],r,s){let a=Math.max(an(t,n),0),c=Math.min(an(t,o)+2,t.length),i=Math.max(1,Math.ceil(
(c-a)/Zi)),l="";for(let f=a;f<c;f+=i){let u=f;for(let d=f;d<Math.min(f+i,c);d++)(e[d]>e[u]||Number.isNaN(e[u]))&&(u=d);Number.isNaN(e[u])||(l+=`${l?"L":"M"}${r(
t[u]).toFixed(1)} ${s(e[u]).toFixed(1)}`)}return l}function tl(t,e){let{gutter:n,inner:o}=Dr(t),r=e.clientX-t.plot.getBoundingClientRect().left;if(r<n||r>n+o){zr(
t);return}let[s,a]=t.view,c=s+(r-n)/o*(a-s);t.cursor.setAttribute("d",`M${r.toFixed(1)} 0V${t.height}`);let i=t.devices.map(l=>el(t,l,c));t.tip.textContent=[x(c),
...i].filter(Boolean).join(" \xB7 ")}function el({devices:t,rows:e},{label:n,ts:o,values:r,slowed:s,reasons:a},c){let i=an(o,c);if(i<0)return"";let l=e.map(({gauge:f})=>Nr(
f,r[f.column][i])).join(", ");return`${t.length>1?`${n}: `:""}${l}${s[i]?`, throttled by ${a[s[i]]}`:""}`}function zr({cursor:t,tip:e}){t.removeAttribute("d"),e.
textContent=""}var cn={range:null,event:null,names:null};function Wr(){let t=cn,e=new Set,n={get:()=>t,isEmpty:()=>ln(t,cn),set(o,r){let s={...t,...o};if(s.names?.size===0&&(s.
names=null),!ln(t,s)){t=s;for(let a of[...e])a(t,r)}},clear:o=>n.set(cn,o),subscribe(o){return e.add(o),()=>e.delete(o)}};return n}function ln(t,e){return t.event===
e.event&&Br(t.range,e.range)&&Br(t.names,e.names)}function Br(t,e){if(t===null||e===null)return t===e;let[n,o]=[[...t],[...e]];return n.length===o.length&&n.every(
(r,s)=>r===o[s])}function nl({n:t,parent:e,launch:n,lane:o,start:r,dur:s},a){let c=new Uint8Array(t);c[a]=1;let i=r[a]+s[a];for(let l=a+1;l<t&&o[l]===o[a]&&r[l]<=
i;l++)e[l]>=0&&c[e[l]]&&(c[l]=1);for(let l=0;l<t;l++)n[l]>=0&&c[n[l]]&&(c[l]=1);return c}var ol=3,Ur=new WeakMap;function X(t,e){let n=Ur.get(t)??[],o=n.find(s=>ln(
s.selection,e));if(o)return o.mask;let r=rl(t,e);return Ur.set(t,[{selection:{...e},mask:r},...n].slice(0,ol)),r}function rl(t,{range:e,event:n,names:o}){if(e===
null&&n===null&&o===null)return null;let r=n===null?new Uint8Array(t.n).fill(1):nl(t,n);if(e!==null&&sl(t,r,e),o===null)return r;let s=new Uint8Array(t.header.names.
length);for(let a of o)s[a]=1;for(let a=0;a<t.n;a++)r[a]&=s[t.name[a]];return r}function sl({n:t,start:e,dur:n},o,[r,s]){for(let a=0;a<t;a++){let c=e[a],i=c+n[a];
(c===i?c<r||c>s:c>=s||i<=r)&&(o[a]=0)}}function j(t,e,n,o){let r=e.map(([c,i])=>{let l=()=>{s(c),o(c)},f=String(c===n);return h("button",{type:"button",class:"cl-button","data-key":c,"aria-pressed":f,
onclick:l},i)}),s=c=>{for(let i of r)i.setAttribute("aria-pressed",String(i.dataset.key===c))};return{group:h("div",{class:"mm-choice",role:"group","aria-label":t},
h("span",{class:"mm-muted"},t),...r),mark:s}}function Q(t,e,n){let o=/[a-z]/i.test(t)?null:e;return h("button",{type:"button",class:"cl-button",title:e,"aria-la\
bel":o,onclick:n},t)}function Gr(){let t=["allocated","active","reserved"].map(e=>h("span",{class:"mm-key"},h("i",{class:`mm-line-${e}`}),e));return h("p",{class:"\
mm-legend"},...t)}function Kr(t,e){let n=al(t,e),o={};for(let[r,s]of Object.entries(e.self)){let a=new Float64Array(t.parent.length);s.forEach((c,i)=>{a[n[i]]+=c});for(let c=a.length-
1;c>0;c--)a[t.parent[c]]+=a[c];o[r]=a}t.before=o}function al(t,{parent:e,label:n}){let o=new Map;for(let s=1;s<t.parent.length;s++)o.set(`${t.parent[s]} ${t.labels[t.
label[s]]}`,s);let r=[];return e.forEach((s,a)=>{let c=s<0?0:r[s],i=`${c} ${n[a]}`,l=o.get(i)??cl(t,c,n[a]);o.set(i,l),r.push(l)}),r}function cl(t,e,n){let o=t.
parent.length;return t.parent.push(e),t.depth.push(t.depth[e]+1),t.label.push(t.labels.push(n)-1),t.sample.push(-1),t.children.push([]),t.children[e].push(o),o}var V=19,Xr=420,il=.8,jr=4,ll=2,fl=.99,ul={light:["#f3b562","#f0a06a","#eec57c","#e9927a","#f6d08f"],dark:["#a8642a","#9c5230","#8f6b2f","#a14b3f","#b07a35"]},Vr={
light:"#000000",dark:"#ffffff"},dl={light:"#b79cf0",dark:"#7a5cc4"};function qr({parent:t,weight:e,children:n},o,r){let s=hl(t,o,r),a=r/Math.max(e[o],1),c=[{node:o,
x:0,row:s.length}];for(let i=c.pop();i;i=c.pop()){let{x:l}=i,{row:f}=i;for(let u of[...n[i.node]].sort((d,p)=>e[p]-e[d])){let d=e[u]*a;if(d<il)break;let p=i.row<=
ll?pl(n,e,u):[u],m=p.length>=jr,g=m?p[p.length-1]:u;s.push({node:g,x:l,width:d,row:f,folded:m?p.length:0}),c.push({node:g,x:l,row:f+1}),l+=d}}return s}function hl(t,e,n){
let o=[];for(let a=e;a>=0;a=t[a])o.unshift(a);let r=o.length>jr+1;return(r?[o[0],t[e],e]:o).map((a,c)=>({node:a,x:0,width:n,row:c,folded:r&&c===1?o.length-2:0}))}
function pl(t,e,n){let o=[n];for(let r=n;;){let s=t[r].find(a=>e[a]>=fl*e[r]);if(s===void 0||!t[s].length)return o;o.push(s),r=s}}function Yr(t,e,n){let o=V*(1+
e.reduce((i,{row:l})=>Math.max(i,l),0)),r=Math.min(devicePixelRatio||1,2);t.width=Math.floor(n.width*r),t.height=Math.floor(o*r),t.style.width=`${n.width}px`,t.
style.height=`${o}px`;let s=N(t),a=getComputedStyle(t);s.scale(r,r),s.font=`11px ${a.fontFamily}`,s.textBaseline="middle";for(let i of e)ml(s,i,n);let c=e.find(
({node:i})=>i===n.focus);c&&gl(s,c,a.color)}function ml(t,{node:e,x:n,width:o,row:r,folded:s},{graph:a,root:c,query:i,theme:l,options:f}){let u=s?`${s} callers,\
 to ${f.textOf(e)}`:f.textOf(e),d=i!==""&&u.toLowerCase().includes(i),p=e!==c&&r<=a.depth[c],[m,g]=wl(a,e,u,l,f),w=r*V;t.globalAlpha=i&&!d?.4:p?.6:1,t.fillStyle=
d?dl[l]:m,t.fillRect(n,w,Math.max(o-1,.6),V-1),t.globalAlpha=1,!(o<=30)&&(t.save(),t.beginPath(),t.rect(n,w,o-3,V),t.clip(),t.fillStyle=d||t.globalAlpha<1?Vr[l]:
g,t.fillText(`${u}  ${f.format(a.weight[e])}`,n+4,w+V/2),t.restore())}function gl(t,{x:e,width:n,row:o},r){t.strokeStyle=r,t.lineWidth=2,t.strokeRect(e+1,o*V+1,
Math.max(n-3,1),V-3)}function wl({weight:t,before:e},n,o,r,{colorOf:s}){if(e){let c=(t[n]-e[n])/Math.max(t[n],e[n],1),i=Math.round(Math.min(1,Math.abs(c))*80),[
l,f]=[c>0?"#d1493f":"#2f6fd0",r==="dark"?"#4a525c":"#dfe3e8"];return[`color-mix(in srgb, ${l} ${i}%, ${f})`,r==="dark"||i>55?"#ffffff":"#000000"]}if(s)return n?
s(n,o,r):r==="dark"?["#4a525c","#ffffff"]:["#dfe3e8","#000000"];let a=ul[r];return[a[n?mt(o)%a.length:0],Vr[r]]}function be(t,e){let n=bl(t,e),o=h("div",{class:"mm-tools"},n.input,n.reset,n.found);return t.replaceChildren(o,n.stage,n.spoken),vl(n),{show(r){n.graph?.parent!==
r.parent&&Object.assign(n,{root:0,focus:-1}),n.graph=r,n.reset.hidden=n.root===0,n.query&&fn(n,n.input.value),xt(n)},zoom:r=>Dt(n,r),search(r){n.input.value=r,fn(
n,r)},get graph(){return n.graph},get root(){return n.root},boxes:()=>n.boxes,textOf:r=>n.graph?e.textOf(r):"",setTheme(r){n.theme=r,xt(n)},resize(){t.clientWidth!==
n.width&&xt(n)},destroy(){cancelAnimationFrame(n.pending),t.replaceChildren()}}}function bl(t,e){let n=h("canvas",{class:"mm-flame-canvas",tabindex:0,role:"appl\
ication","aria-label":`${e.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,"data-lm-suppress-shortcuts":"true"}),o=h("div",{class:"mm-flame\
-scroll"},n);o.style.maxHeight=`${Xr}px`;let r=h("div",{class:"mm-tip",hidden:!0});return{options:e,host:t,input:h("input",{type:"search",class:"mm-search",placeholder:e.
placeholder,"aria-label":e.searchLabel,"data-lm-suppress-shortcuts":"true"}),reset:h("button",{type:"button",class:"cl-button",hidden:!0},"Whole graph"),found:h(
"span",{class:"mm-muted","aria-live":"polite"}),scroller:o,stage:h("div",{class:"mm-flame-stage"},o,r),canvas:n,tip:r,spoken:h("p",{class:"mm-said","aria-live":"\
polite"}),theme:e.theme,graph:null,root:0,focus:-1,query:"",boxes:[],width:0,pending:0}}function xt(t){let{graph:e}=t;t.pending||!e||(t.pending=requestAnimationFrame(
()=>{t.pending=0,yl(t)}))}function yl(t){let{canvas:e,options:n,graph:o,root:r,focus:s,query:a,theme:c}=t;o&&(t.width=Math.max(t.host.clientWidth||t.width,160),
t.boxes=qr(o,r,t.width),Yr(e,t.boxes,{graph:o,root:r,focus:s,query:a,theme:c,width:t.width,options:n}))}function Dt(t,e){t.root=e,t.reset.hidden=e===0,t.tip.hidden=
!0,xt(t),t.options.onZoom(e)}function fn(t,e){t.query=e.trim().toLowerCase(),xt(t),t.found.textContent=t.query&&t.graph?xl(t,t.graph):""}function xl({options:t,
query:e},n){let o=n.parent.length,[r,s]=[new Uint8Array(o),new Uint8Array(o)],[a,c]=[0,0];for(let i=1;i<o;i++){let l=n.parent[i];r[i]=t.textOf(i).toLowerCase().
includes(e)?1:0,s[i]=s[l]||r[l]?1:0,!(!r[i]||s[i])&&(a+=n.weight[i],c+=n.num[i])}return c?Zr(t,n,a,c):"nothing fits"}function Zr(t,e,n,o){let r=e.weight[0]?100*
n/e.weight[0]:0;return t.amountOf(n,o).replace("%",L(r))}function vl(t){let{canvas:e,tip:n,input:o}=t;t.reset.addEventListener("click",()=>Dt(t,0)),o.addEventListener(
"input",()=>fn(t,o.value)),e.addEventListener("click",r=>{let s=Jr(t,r);s&&Dt(t,s.node)}),e.addEventListener("pointermove",r=>Ml(t,r)),e.addEventListener("point\
erleave",()=>{n.hidden=!0}),e.addEventListener("keydown",r=>{!t.graph||r.altKey||r.ctrlKey||r.metaKey||Al(t,t.graph,r.key)&&(r.preventDefault(),r.stopPropagation())})}
function Jr({canvas:t,boxes:e},n){let o=t.getBoundingClientRect(),[r,s]=[n.clientX-o.left,Math.floor((n.clientY-o.top)/V)];return e.find(a=>a.row===s&&a.x<=r&&r<
a.x+Math.max(a.width,1))}function Ml(t,e){let{tip:n,graph:o,stage:r}=t,s=Jr(t,e);if(n.hidden=!s,!s||!o)return;n.replaceChildren(...Qr(t,o,s.node).map(c=>h("div",
{},c)));let a=r.getBoundingClientRect();n.style.left=`${Math.max(Math.min(e.clientX-a.left+12,t.width-n.offsetWidth-4),0)}px`,n.style.top=`${e.clientY-a.top+16}\
px`}function Qr({options:t},e,n){let o=[t.textOf(n),Zr(t,e,e.weight[n],e.num[n])];if(e.before){let r=e.weight[n]-e.before[n];o.push(`${r<0?"\u2212":"+"}${t.format(
Math.abs(r))} against the other run`)}return[...o,...t.notesOf?.(n)??[]].filter(Boolean)}function kl({boxes:t,focus:e},{parent:n},o){let r=t.find(({node:i})=>i===
e)??t[0],s=t.filter(i=>i.row===r.row).sort((i,l)=>i.x-l.x),a=i=>s[Math.min(Math.max(s.indexOf(r)+i,0),s.length-1)].node;if(o==="ArrowUp")return Math.max(n[r.node],
0);if(o==="ArrowLeft")return a(-1);if(o==="ArrowRight")return a(1);if(o!=="ArrowDown")return null;let c=t.filter(({node:i})=>n[i]===r.node).sort((i,l)=>l.width-
i.width);return c.length?c[0].node:r.node}function Al(t,e,n){let o=kl(t,e,n);if(o!==null)t.focus=t.focus<0?t.boxes[0].node:o,t.spoken.textContent=Qr(t,e,t.focus).
join(", "),xt(t);else if((n==="Enter"||n===" ")&&t.focus>=0)Dt(t,t.focus);else if(n==="Escape"&&t.root)Dt(t,0);else return!1;return!0}var Tl=new Set(["kernel","gpu_memcpy","gpu_memset"]);function ts(t){let e=o=>t.header.details.some(r=>r.name===o);return[["tree","call tree",!0],["python","Pyth\
on",t.header.cats.includes("python_function")],["stack","call stacks",e("stack")],["module","modules",e("module")]].flatMap(([o,r,s])=>s?[[o,r]]:[])}function es(t,e){
let n=Sl(t),{n:o,header:r}=t,s=r.lanes.map(({kind:w})=>w==="device"),a=e==="stack"||e==="module"?El(n,t,e):null,c=r.cats.map(w=>w==="python_function"),i=r.cats.
map(w=>w==="Trace"||w==="overhead");for(let w=0;w<o;w++){if(s[t.lane[w]]||i[t.cat[w]])continue;let b=a?a(w):-1,y=t.parent[w]<0?-1:n.nodeOf[t.parent[w]],k=b>=0?b:
y>=0?y:a?n.none:0;n.nodeOf[w]=e==="python"&&!c[t.cat[w]]?k:n.add(k,n.labelOf[t.name[w]],w)}let l=r.cats.map(w=>Tl.has(w));for(let w=0;w<o;w++){if(!s[t.lane[w]]||
!l[t.cat[w]]||t.flags[w]&C.instant)continue;let b=t.launch[w],y=a?n.add(0,n.text("(no launch)"),-1):0,k=b<0?y:Math.max(n.nodeOf[b],0);n.nodeOf[w]=n.add(k,n.labelOf[t.
name[w]],w)}let{parent:f,depth:u,label:d,labels:p,sample:m,nodeOf:g}=n;return{parent:f,depth:u,label:d,labels:p,sample:m,nodeOf:g,children:Ol(f)}}function Sl(t){
let e=[...t.header.names],[n,o]=[new Set(t.header.step_names),e.length];n.size&&e.push("ProfilerStep*");let r=new Map,s=new Map,a=2**24,c={parent:[-1],depth:[0],
label:[-1],sample:[-1],labels:e,labelOf:t.header.names.map((i,l)=>n.has(l)?o:l),nodeOf:new Int32Array(t.n).fill(-1),none:0,text(i){let l=s.get(i)??e.push(i)-1;return s.
set(i,l),l},add(i,l,f){let u=i*a+l,d=r.get(u);return d===void 0&&(d=c.parent.length,r.set(u,d),c.parent.push(i),c.depth.push(c.depth[i]+1),c.label.push(l),c.sample.
push(f)),d}};return c}function El(t,e,n){t.none=t.add(0,t.text(`(no ${n})`),-1);let o=new Map,r=e.detailOf(n);return s=>{let a=r(s);if(a===null)return-1;let c=String(
a),i=o.get(c);return i===void 0&&(i=(n==="stack"?c.split(`
`).reverse():c.split(".")).filter(Boolean).reduce((f,u)=>t.add(f,t.text(u),-1),0),o.set(c,i)),i}}function Ol(t){let e=t.map(()=>[]);for(let n=1;n<t.length;n++)e[t[n]].
push(n);return e}function un(t,{label:e,labels:n},o){return o?e[o]<t.header.names.length?U(t.header,e[o]):n[e[o]]:"all"}function ns({header:t,memory:e}){let n=[];t.lanes.some(({kind:s,count:a})=>s==="device"&&a)&&n.push(["device","GPU time"]),t.lanes.some(({kind:s,count:a})=>s===
"host"&&a)&&n.push(["host","CPU time"]);let{n:o,num_actions:r}=t.memory;return o===r&&e.some(({event:s})=>s.some(a=>a>=0))&&n.push(["memory","allocated bytes"]),
n}function os(t,e,n,o,r){let{parent:s,nodeOf:a}=e,c={weight:new Float64Array(s.length),num:new Float64Array(s.length)};n==="memory"?_l(t,a,o,r,c):$l(t,a,n==="de\
vice",o,r,c);let{weight:i,num:l}=c;for(let f=s.length-1;f>0;f--)i[s[f]]+=i[f],l[s[f]]+=l[f];return c}function $l(t,e,n,o,r,{weight:s,num:a}){let{n:c,lane:i,header:l,
flags:f}=t,u=l.lanes.map(({kind:m})=>m==="device"),d=n?null:r===null?t.self:Cl(t,r),p=C.instant|C.waiting;for(let m=0;m<c;m++){let g=e[m];if(g<0||u[i[m]]!==n||f[m]&
p||o!==null&&!o[m])continue;let w=d?d[m]:r===null?t.dur[m]:rs(t,m,r);w>0&&(s[g]+=w),a[g]+=1}}function rs({start:t,dur:e},n,[o,r]){return Math.max(0,Math.min(t[n]+
e[n],r)-Math.max(t[n],o))}function Cl(t,e){let n=new Float64Array(t.n);for(let o=0;o<t.n;o++){let r=rs(t,o,e);n[o]+=r,t.parent[o]>=0&&(n[t.parent[o]]-=r)}return n}
function _l({memory:t},e,n,o,{weight:r,num:s}){let a=t.filter(({label:c})=>c!=="cpu");for(let{ts:c,bytes:i,action:l,actions:f,event:u}of a.length?a:t)for(let d=0;d<
c.length;d++){let p=u[d]<0?-1:e[u[d]];p<0||!f[l[d]].startsWith("alloc")||!(i[d]>0)||n!==null&&!n[u[d]]||o!==null&&(c[d]<o[0]||c[d]>o[1])||(r[p]+=i[d],s[p]+=1)}}function ss(t,e,{theme:n,baseline:o,onEvent:r}){let[s,a]=[ts(e),ns(e)],c={data:e,known:new Map,by:s[0][0],weight:a[0]?.[0]??"host",selection:{range:null,event:null,
names:null},isCompared:o!==null,baseline:o,tones:_t(n)},i=b=>{Object.assign(c,b),w()},l=j("By",s,c.by,b=>i({by:b})),f=j("Width",a,c.weight,b=>i({weight:b})),u=Q(
"Show in the timeline","Select the longest call of this node in the timeline",()=>{let b=Fl(c,m.root);b>=0&&r(b)}),d=h("p",{class:"mm-muted cl-flame-note",role:"\
status"}),p=h("div",{class:"cl-flame-graph"});t.replaceChildren(h("div",{class:"mm-tools"},l.group,f.group,...Ll(c,i),u),d,p);let m=be(p,{theme:n,label:"Costs b\
y call path",placeholder:"Search names",searchLabel:"Search call paths",textOf:b=>un(e,vt(c),b),amountOf:(b,y)=>`${dn(c)(b)} (%), ${$(y,Il(c))}`,format:b=>dn(c)(
b),notesOf:b=>[Nl(c,b)],colorOf:(b,y)=>Hl(c,b,y),onZoom(b){u.hidden=b===0}});u.hidden=!0;let g=!1,w=()=>{if(g=t.hidden===!0,g)return;let b=vt(c),y=X(e,{...c.selection,
names:null}),{weight:k,num:P}=os(e,b,c.weight,y,c.selection.range),R={parent:b.parent,depth:b.depth,children:b.children,weight:k,num:P},I=Rl(c,b);m.show(I?{...R,
before:I}:R),d.textContent=Pl(c,k[0])};return w(),{flame:m,get paths(){return vt(c)},update:b=>i({selection:b}),shown(){g&&w()},setGrouping(b){l.mark(b),i({by:b})},
setWeight(b){f.mark(b),i({weight:b})},setTheme(b){c.tones=_t(b),m.setTheme(b)},resize:()=>m.resize(),destroy:()=>m.destroy()}}function vt({data:t,known:e,by:n,baseline:o}){
let r=e.get(n)??es(t,n);return!e.has(n)&&o&&n==="tree"&&Kr(r,o),e.set(n,r),r}function Rl({by:t,weight:e,selection:n,isCompared:o},r){if(!(!o||t!=="tree"||n.range||
n.event!==null))return r.before?.[e]}function Ll(t,e){if(!t.baseline)return[];let n=[["yes",`against ${t.baseline.name}`],["no","this run"]];return[j("Colours",
n,"yes",o=>e({isCompared:o==="yes"})).group]}function Pl(t,e){let{range:n,event:o}=t.selection,r=n?`of the selected ${x(n[1]-n[0])}`:o===null?"of the whole trac\
e":"within the selected event",s=t.isCompared&&t.baseline&&t.by==="tree"?"; red: more than in the other run, blue: less":"";return`${dn(t)(e)} ${r}${s}`}function dn({
weight:t}){return t==="memory"?v:x}function Il({weight:t}){return t==="memory"?"allocation":t==="device"?"kernel":"call"}function Nl(t,e){let n=vt(t),o=e?n.labels[n.
label[e]]:"";return o===un(t.data,n,e)?"":o.slice(0,400)}function Hl(t,e,n){let o=vt(t).sample[e],{data:r,tones:s}=t,a=o<0?"python_function":r.header.cats[r.cat[o]],
c=re(a,n)*W+mt(n)%W;return[s.css[c],s.ink[c]]}function Fl(t,e){let{data:n}=t,{parent:o,nodeOf:r}=vt(t),s=new Uint8Array(o.length);s[e]=1;for(let i=e+1;i<o.length;i++)
s[i]=s[o[i]];let[a,c]=[-1,-1];for(let i=0;i<n.n;i++)r[i]<0||!s[r[i]]||((a<0||n.dur[i]>n.dur[a])&&(a=i),r[i]===e&&(c<0||n.dur[i]>n.dur[c])&&(c=i));return c>=0?c:
a}var Dl=new Set(["article","b","code","dd","details","div","dl","dt","h4","li","ol","p","pre","span","strong","summary","table","tbody","td","th","thead","tr","u\
l"]),zl=new Set(["svg","title","rect","path","text"]),Bl=new Set(["class","colspan","scope","role","tabindex","open","title","aria-hidden","aria-label","viewBox",
"width","height","preserveAspectRatio","x","y","rx","d","fill","fill-opacity","stroke","stroke-width","stroke-opacity","stroke-dasharray","opacity","data-event",
"data-depth","data-label","data-wide","font-family","font-size","font-weight","text-anchor"]);function Ul(t){return typeof t=="string"?document.createTextNode(t):
z(t)}function z([t,e,...n]){let o=zl.has(t);if(!o&&!Dl.has(t))throw new Error(`cudalens markup: the element ${t} is not known here`);let r=o?document.createElementNS(
ze,t):document.createElement(t);for(let[s,a]of Object.entries(e))Bl.has(s)&&r.setAttribute(s,a);return t==="h4"&&r.setAttribute("aria-level","3"),r.append(...n.
map(Ul)),r}var ye="details.cg-fold",as="details.cg-row";function cs(t,e){let n={model:e,host:t,traced:null,paths:[]};t.replaceChildren(...e.body.map(z));let[o]=_(t,".cg-fr\
ame",HTMLElement);return o&&(o.querySelectorAll(".cg-stop, .cg-fold").length>1&&o.before(Wl(o)),o.addEventListener("keydown",r=>Kl(r,o))),Xl(n),{trace:r=>ls(n,r),
setTheme(){},destroy:()=>t.replaceChildren()}}function Wl(t){let e=(r,s)=>{for(let a of _(t,r,HTMLDetailsElement))a.open=s},n=(r,s)=>h("button",{type:"button",class:"\
cl-button",onclick:s},r),o=h("div",{class:"cg-tools",role:"group","aria-label":"Graph tree"});return t.querySelector(ye)&&o.append(n("Unfold all",()=>e(ye,!0))),
o.append(n("Open all",()=>e(as,!0)),n("Close all",()=>{e(as,!1),e(ye,!1)})),t.querySelector(".cg-stop.is-current")&&o.append(n("Go to current",()=>Gl(t))),o}function Gl(t){
let[e]=_(t,".cg-stop.is-current > .cg-row > summary",HTMLElement);e&&(is(e),e.focus({preventScroll:!0}),hn(t,e))}function is(t){for(let e=t;e;e=e.parentElement)
e instanceof HTMLDetailsElement&&e.matches(ye)&&(e.open=!0)}function hn(t,e){let n=e.getBoundingClientRect().top-t.getBoundingClientRect().top;(n<0||n+e.offsetHeight>
t.clientHeight)&&(t.scrollTop+=n-t.clientHeight/3)}function Kl(t,e){let n=t.target;if(!(n instanceof HTMLElement)||n.tagName!=="SUMMARY"||t.ctrlKey||t.metaKey||
t.altKey)return;let o=_(e,"summary",HTMLElement).filter(c=>c.getClientRects().length),r=o.indexOf(n),s={ArrowDown:r+1,ArrowUp:r-1,Home:0,End:o.length-1},a=t.key===
"ArrowRight";if(t.key in s){let c=o[Math.min(Math.max(s[t.key],0),o.length-1)];c.focus({preventScroll:!0}),hn(e,c)}else if(a||t.key==="ArrowLeft")n.parentElement?.
toggleAttribute("open",a);else return;t.preventDefault(),t.stopPropagation()}function Xl(t){let e=[...t.host.querySelectorAll(".cudalens-graph-paths li")].slice(
0,t.model.paths.length);t.paths=e.map((n,o)=>{let a=h("button",{type:"button","aria-pressed":"false",title:"Show this path in the tree",onclick:()=>ls(t,t.traced===
o?null:o)});return a.append(...n.childNodes),n.replaceChildren(a),a})}function ls(t,e){let{host:n,model:o,paths:r}=t;t.traced=e;for(let[i,l]of r.entries())l.setAttribute(
"aria-pressed",String(i===e));for(let i of n.querySelectorAll(".is-traced"))i.classList.remove("is-traced");let a=(e===null?[]:o.paths[e]??[]).flatMap(i=>_(n,`.\
cg-n${Number(i)}`,HTMLElement).slice(0,1));for(let i of a)i.classList.add("is-traced"),is(i);let[c]=_(n,".cg-frame",HTMLElement);a.length&&hn(c,a[0])}function Mt({clock:t},e){return t===null?e+1:e<0?0:t[e]}function kt({clock:t,data:e},n){return t!==null?xe(t,n):Math.min(Math.max(Math.floor(n)-1,-1),e.numRows-
1)}function xe(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function At({clock:t,data:e}){let n=t===null?e.numRows:t[e.numRows-
1]??0;return[0,Math.max(n*1.005,1)]}function at(t,e){let[n,o]=t.view;return(Mt(t,e)-n)/(o-n)*t.width}var Tt=170,jl=20,tt=18,q=Tt-jl,fs={light:{allocated:"#0b62c4",active:"#b35c00",reserved:"#6b7683",grid:"#e3e8ed",paper:"#ffffff",mark:"#b3261e",cursor:"#1b1f24",
range:"rgba(11,98,196,.14)"},dark:{allocated:"#6cb6ff",active:"#f0a050",reserved:"#9aa5b1",grid:"#2a3138",paper:"#111418",mark:"#ff8a80",cursor:"#e6e9ed",range:"\
rgba(108,182,255,.2)"}},ve=["reserved","active","allocated"];function Vl(t,e){let n=Math.ceil(t.width),[o,r]=t.view,s={low:new Float64Array(n),high:new Float64Array(
n)},a=kt(t,o);for(let c=0;c<n;c++){let i=kt(t,o+(c+1)*(r-o)/n),[l,f]=[e[a+1],e[a+1]];for(let u=a+1;u<=i;u++){let d=e[u+1];d<l&&(l=d),d>f&&(f=d)}s.low[c]=l,s.high[c]=
f,a=i}return s}function us(t){let{canvas:e,shown:n,width:o,ratio:r}=t;if(n===null)return;let s=N(e),a=getComputedStyle(e),c=ve.map(u=>Vl(t,n.curves[u])),i=1;for(let{
high:u}of c)for(let d of u)d>i&&(i=d);let l=u=>q-Math.max(u,0)/(i*1.04)*(q-tt),f={context:s,colors:fs[t.theme],ink:a.color,y:l};s.setTransform(r,0,0,r,0,0),s.clearRect(
0,0,o,Tt),s.font=`11px ${a.fontFamily}`,Zl(t,f,i),Ql(t,f),ve.forEach((u,d)=>{ql(f,c[d],f.colors[u],u==="allocated")}),Jl(f,i);for(let u of n.marks)tf(t,f,u);ef(
t,f,n.peak)}function ql({context:t,y:e},{low:n,high:o},r,s){let a=o.length;pn(t,r),t.beginPath(),t.moveTo(0,e(n[0]));for(let c=0;c<a;c++)t.lineTo(c+.5,e(o[c])),
o[c]!==n[c]&&t.lineTo(c+.5,e(n[c]));t.lineWidth=s?1.5:1.25,t.stroke(),s&&(t.lineTo(a,e(0)),t.lineTo(0,e(0)),t.globalAlpha=.14,t.fill(),t.globalAlpha=1)}function pn(t,e){
t.strokeStyle=e,t.fillStyle=e}function Yl(t){let e=10**Math.floor(Math.log10(Math.max(t,1e-9)));return[1,2,5,10].map(n=>n*e).find(n=>n>=t*.999)??10*e}function Zl({
width:t},{context:e,colors:n,y:o},r){e.lineWidth=1,e.strokeStyle=n.grid,e.globalAlpha=1;for(let s of ds(r)){let a=Math.round(o(s))+.5;e.beginPath(),e.moveTo(0,a),
e.lineTo(t,a),e.stroke()}}function ds(t){let e=2**Math.floor(Math.log2(t/2.5));return Array.from({length:Math.floor(t*1.02/e)},(n,o)=>(o+1)*e)}function Jl({context:t,
colors:e,ink:n,y:o},r){t.textBaseline="bottom",t.lineJoin="round",t.lineWidth=3.5,t.strokeStyle=e.paper,t.fillStyle=n;for(let s of ds(r)){let a=Math.round(o(s))-
.5;t.strokeText(v(s),3,a),t.fillText(v(s),3,a)}}function Ql({width:t,view:e,clock:n},{context:o,ink:r}){o.fillStyle=r;let s=Math.max(Yl((e[1]-e[0])/Math.max(t/130,
2)),1);o.textBaseline="top";for(let a=Math.ceil(e[0]/s)*s;a<=e[1];a+=s){let c=(a-e[0])/(e[1]-e[0])*t;o.beginPath(),o.moveTo(Math.round(c)+.5,q),o.lineTo(Math.round(
c)+.5,q+4),o.stroke();let i=a?x(a):"0",l=n===null?Math.round(a).toLocaleString("en-US"):i,f=o.measureText(l).width/2;o.fillText(l,Math.min(Math.max(c-f,0),t-2*f),
q+6)}}function hs(t,e){let n=Mt(t,e);return n>=t.view[0]&&n<=t.view[1]}function tf(t,{context:e,colors:n,ink:o},{row:r,kind:s}){if(!hs(t,r))return;let a=at(t,r),
c=s==="oom";pn(e,c?n.mark:o),e.setLineDash(c?[]:[3,3]),e.beginPath(),e.moveTo(a,tt-2),e.lineTo(a,q),e.stroke(),e.setLineDash([]),e.beginPath(),e.moveTo(a-5,tt-10),
e.lineTo(a+5,tt-10),e.lineTo(a,tt-2),e.fill()}function ef(t,{context:e,colors:n,y:o},{row:r,bytes:s}){if(!hs(t,r))return;let[a,c]=[Math.max(at(t,r),3),o(s)];e.fillStyle=
n.allocated,e.beginPath(),e.arc(a,c,4,0,7),e.fill();let i=`peak ${v(s)}`;e.font=`600 ${e.font}`;let l=e.measureText(i).width+8;e.textBaseline="bottom",e.fillText(
i,a+l>t.width?a-l:a+7,Math.max(c-3,12))}function mn(t){let e=N(t.over),n=fs[t.theme];e.setTransform(t.ratio,0,0,t.ratio,0,0),e.clearRect(0,0,t.width,Tt);let o=at(
t,t.row);if(t.since!==null){let r=at(t,t.since);e.fillStyle=n.range,e.fillRect(Math.min(r,o),tt-4,Math.abs(o-r),q-tt+4)}pn(e,n.cursor),e.lineWidth=1.5,e.beginPath(),
e.moveTo(o,tt-6),e.lineTo(o,q),e.stroke(),e.beginPath(),e.arc(o,q,3.5,0,7),e.fill()}function gs(t,e,n){let o=nf(t,e,n),{canvas:r,over:s,tip:a}=o;return t.replaceChildren(h("div",{class:"mm-curve-stage"},r,s),a),of(o),{show(c,i,l){o.shown={curves:c,
peak:i,marks:l},ps(o)},setMoment(c,i){Object.assign(o,{row:c,since:i}),r.setAttribute("aria-valuenow",String(c)),r.setAttribute("aria-valuetext",Y(e,c)),o.shown&&
mn(o)},setAxis(c){o.clock=c?e.clock:null,Me(o,At(o))},zoomTo:c=>Me(o,c??At(o)),getView:()=>o.view,xOf:c=>at(o,c),setTheme(c){o.theme=c,o.shown&&wn(o)},resize(){
o.shown&&t.clientWidth!==o.width&&ps(o)},stats:()=>({script:o.script}),destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function nf(t,e,n){let{clock:o,
numRows:r}=e,s=h("canvas",{class:"mm-curve-canvas",tabindex:0,role:"slider","aria-label":"Moment of the history","aria-valuemin":-1,"aria-valuemax":r-1,"aria-va\
luenow":r-1});return{data:e,options:n,host:t,canvas:s,over:h("canvas",{class:"mm-over","aria-hidden":"true"}),tip:h("div",{class:"mm-tip",hidden:!0}),theme:n.theme,
clock:o,view:At({clock:o,data:e}),shown:null,row:r-1,since:null,pointer:null,width:0,ratio:1,pending:0,script:[]}}function Y(t,e){if(e<0)return"before the first\
 action";let n=`action ${(e+1).toLocaleString("en-US")} of ${t.numRows.toLocaleString("en-US")}`;return t.clock?`${x(t.clock[e])}, ${n}`:n}function ps(t){t.width=
Math.max(t.host.clientWidth||t.width,160),t.ratio=Math.min(devicePixelRatio||1,2);for(let e of[t.canvas,t.over])e.width=Math.floor(t.width*t.ratio),e.height=Math.
floor(Tt*t.ratio),e.style.width=`${t.width}px`,e.style.height=`${Tt}px`;wn(t)}function Me(t,[e,n]){let[,o]=At(t),r=Math.min(Math.max(n-e,t.clock===null?4:100),o),
s=Math.min(Math.max(e,0),o-r);t.view=[s,s+r],wn(t)}function wn(t){t.pending||(t.pending=requestAnimationFrame(()=>{if(t.pending=0,!t.shown)return;let e=performance.
now();us(t),mn(t),t.script.push(performance.now()-e)}))}function ke({data:t,options:e},n,o){let r=Math.min(Math.max(n,-1),t.numRows-1);e.onMoment(r,o===r?null:o)}
function bn({canvas:t},e){return e.clientX-t.getBoundingClientRect().left}function ms(t,e){let[n,o]=t.view;return kt(t,n+bn(t,e)/t.width*(o-n))}function of(t){let{
canvas:e}=t,n=()=>{t.pointer=null};e.addEventListener("pointerdown",o=>{o.button!==0||!t.shown||(t.pointer={x:o.clientX,row:ms(t,o)},e.setPointerCapture(o.pointerId),
ke(t,t.pointer.row,null))}),e.addEventListener("pointermove",o=>{if(!t.shown)return;let r=ms(t,o);sf(t,t.shown.curves,o,r);let{pointer:s}=t;!s||Math.abs(o.clientX-
s.x)<3||ke(t,Math.max(r,s.row),Math.min(r,s.row))}),e.addEventListener("pointerup",n),e.addEventListener("pointercancel",n),e.addEventListener("pointerleave",()=>{
t.tip.hidden=!0}),e.addEventListener("wheel",o=>rf(t,o),{passive:!1}),e.addEventListener("keydown",o=>{o.altKey||o.ctrlKey||o.metaKey||!cf(t,o)||(o.preventDefault(),
o.stopPropagation())})}function rf(t,e){(e.ctrlKey||e.metaKey)&&(e.preventDefault(),gn(t,Math.exp(e.deltaY/200),bn(t,e)/t.width))}function gn(t,e,n){let[o,r]=t.
view,s=o+(r-o)*n;Me(t,[s-(s-o)*e,s+(r-s)*e])}function sf(t,e,n,o){let{tip:r}=t,s=ve.map(a=>`${a} ${v(e[a][o+1])}`);r.replaceChildren(...[Y(t.data,o),...s].map(a=>h(
"div",{},a))),r.hidden=!1,r.style.left=`${Math.max(Math.min(bn(t,n)+14,t.width-r.offsetWidth-4),0)}px`,r.style.top="24px"}function af(t,e){let{data:n,row:o,view:r,
width:s,shown:a}=t,c=i=>{let l=kt(t,Mt(t,o)+i*(r[1]-r[0])/s);return l===o?o+Math.sign(i):l};return e==="ArrowRight"?c(1):e==="ArrowLeft"?c(-1):e==="PageDown"?c(
s/10):e==="PageUp"?c(-s/10):e==="Home"?-1:e==="End"?n.numRows-1:e.toLowerCase()==="p"&&a?a.peak.row:null}function cf(t,e){let{row:n,since:o,view:r}=t,s=af(t,e.key);
if(s!==null)ke(t,s,e.shiftKey?o??Math.min(n,s):null);else if(e.key==="+"||e.key==="=")gn(t,1/1.6,(Mt(t,n)-r[0])/(r[1]-r[0]));else if(e.key==="-")gn(t,1.6,.5);else if(e.
key==="0")Me(t,At(t));else if(e.key==="Escape"&&o!==null)ke(t,n,null);else return!1;return!0}var yn=2147483647;async function Bt(t,e,n){let o=await Promise.all(n.map(r=>H(t,`${e}.${r}`)));return Object.fromEntries(n.map((r,s)=>[r,o[s]]))}function zt(t){
let e=new Float64Array(t.length),n=0;for(let o=0;o<t.length;o++)n+=t[o],e[o]=n;return e}var lf=["addr","device","pool","units","is_asked","spare","alloc","relea\
sed","done","stack","category","block","facts"];async function ff(t,e){let[n,o]=await Promise.all([Bt(t,"allocation",lf),H(t,"addr.steps")]),r=zt(o),s=n.addr.length,
a=Float64Array.from(n.units,f=>f*e.unit),c=Int32Array.from(zt(n.alloc),f=>f-1),i=c.map((f,u)=>n.released[u]?f+n.released[u]-1:yn),l=c.map((f,u)=>n.done[u]?(n.released[u]?
i[u]:f)+n.done[u]-1:yn);return{n:s,addr:Float64Array.from(n.addr,f=>r[f]),bytes:a,requested:a.map((f,u)=>n.is_asked[u]?f-n.spare[u]:Number.NaN),device:n.device,
pool:n.pool,category:n.category,facts:n.facts,alloc:c,released:i,done:l,stack:Int32Array.from(n.stack,f=>f-1),block:Int32Array.from(zt(n.block),f=>f-1),byAddress:uf(
n.addr,r.length)}}function uf(t,e){let n=new Uint32Array(e+1);for(let r=0;r<t.length;r++)n[t[r]+1]++;for(let r=0;r<e;r++)n[r+1]+=n[r];let o=new Int32Array(t.length);
for(let r=0;r<t.length;r++)o[n[t[r]]++]=r;return o}var df=["addr","device","pool","units","added","removed","kind","grows"];async function hf(t,e){let{addr:n,units:o,
added:r,removed:s,device:a,pool:c,kind:i,grows:l}=await Bt(t,"piece",df);return{n:n.length,addr:zt(n),bytes:Float64Array.from(o,f=>f*e.piece_unit),added:Int32Array.
from(r,f=>f-1),removed:Int32Array.from(s,f=>f?f-2:yn),device:a,pool:c,kind:i,grows:l}}async function pf(t){let[e,n,o,r]=await Promise.all([Bt(t,"frame",["file",
"line","function"]),Bt(t,"stack",["sizes","frames"]),Z(t,"files"),Z(t,"functions")]),s=zt(n.sizes);return{n:n.sizes.length,numFrames:e.line.length,frameAt:a=>({
file:o[e.file[a]],line:e.line[a]-1,name:r[e.function[a]]}),idsOf:a=>n.frames.subarray(s[a]-n.sizes[a],s[a])}}async function mf(t,e){let n=await H(t,"clock.steps");
if(!e.has_times)return null;let o=new Float64Array(e.num_rows);for(let r=1;r<o.length;r++)o[r]=o[r-1]+n[r-1]*e.time_unit;return o}function Ae({file:t,line:e,name:n}){
let o=t?`${t.split(/[\\/]/).at(-1)}${e>=0?`:${e}`:""}`:"";return[n||"?",o].filter(Boolean).join(" ")}async function ws(t){let e=await qt(t),{header:n}=e,[o,r,s,
a,c,i]=await Promise.all([ff(e,n),hf(e,n),pf(e),Bt(e,"rest",["allocated","active"]),mf(e,n),Z(e,"facts")]);return{header:n,numRows:n.num_rows,allocations:o,pieces:r,
stacks:s,facts:i.map(l=>l?JSON.parse(l):{}),clock:c,rest:a}}var gf=[["category","category"],["stack","call stack"],["pool","pool and stream"],["names","variable"],["cell","cell"]];function St({stream:t,pool:e,graphs:n}){
let[o,r]=e,a=!o&&!r?"default pool":`private pool (${o??"?"}, ${r??"?"})`,c=n.length?` of ${n.join(", ")}`:"";return`${a}${c}, stream ${t??"not recorded"}`}function xn({
stacks:t},e){if(e<0)return"stack not recorded";let n=[...t.idsOf(e)].map(t.frameAt),o=n.find(wf)??n.find(({file:r})=>r.endsWith(".py"))??n[0];return o?Ae(o):"st\
ack not recorded"}function wf({file:t,name:e}){return(t.endsWith(".py")||t.startsWith("In[")||t.startsWith("<"))&&!/[\\/](torch|site-packages|dist-packages)[\\/]/.
test(t)&&e!==""}function Te({facts:t}){let e=n=>t.some(o=>n in o);return gf.filter(([n])=>n!=="names"&&n!=="cell"||e(n))}function Se({allocations:t,facts:e},n){
let o=t.facts[n];return o?e[o-1]:{}}function Et(t,e){let{names:n}=Se(t,e);if(!n)return[];try{return JSON.parse(n).map(String)}catch{return[n]}}function vn(t,e,n){
return n==="names"?Et(t,e)[0]??"":n==="cell"?Se(t,e).cell??"":t.allocations[n][e]}function bf(t,e,n){let{categories:o,pools:r}=t.header;if(n==="names")return String(
e)||"no variable that is known";if(n==="cell")return String(e)||"not recorded";let s=Number(e);return n==="stack"?xn(t,s):n==="pool"?St(r[s]):s?o[s-1]:"unknown"}
function Ut(t,e,n){let o=new Map;for(let r of e){let s=vn(t,r,n),a=o.get(s)??{key:s,label:bf(t,s,n),bytes:0,num:0};a.bytes+=t.allocations.bytes[r],a.num+=1,o.set(
s,a)}return[...o.values()].sort((r,s)=>s.bytes-r.bytes)}var bs=25;function ys(t,e,n,o){let r=Ut(e,n,o.by),s=xs(r),c=[Te(e).find(([u])=>u===o.by)?.[1]??o.by,"held","share","blocks"].map(u=>h("th",{scope:"col"},u)),i=r.
slice(0,bs).map(u=>xf(e,u,s,o)),l=h("table",{class:"mm-table"},h("thead",{},h("tr",{},...c)),h("tbody",{},...i)),f=yf(r);t.replaceChildren(l,...f?[h("p",{class:"\
cl-hint"},f)]:[])}function xs(t){return t.reduce((e,{bytes:n})=>e+n,0)}function yf(t){if(!t.length)return"Nothing was in use.";let e=t.slice(bs);return e.length?
`and ${O(e.length)} more with ${v(xs(e))}`:""}function xf(t,{key:e,label:n,bytes:o,num:r},s,{by:a,picked:c,onPick:i}){let l=c===e,f=s?100*o/s:0,u=h("span",{class:"\
mm-fill"});u.style.width=`${f}%`;let d=a==="stack"?Number(e):-1,p=h("tr",{tabindex:0,"data-picked":l,"aria-pressed":String(l),role:"button",title:d>=0?Mn(t,d).join(
`
`):null},h("td",{class:"mm-name"},u,h("span",{},n)),h("td",{},v(o)),h("td",{},L(f)),h("td",{},O(r))),m=()=>i(l?null:e);return p.addEventListener("click",m),p.addEventListener(
"keydown",g=>{g.key!=="Enter"&&g.key!==" "||(g.preventDefault(),m())}),p}function Mn({stacks:t},e){return[...t.idsOf(e)].map(n=>{let{file:o,line:r,name:s}=t.frameAt(
n);return`${o}${r>=0?`:${r}`:""} ${s||"?"}`.trim()})}function vs(t,e,{strip:n,allocation:o,bytes:r}){let{allocations:s,header:a}=t,c=e.strips[n],i=St(a.pools[c.pool]);if(o<0)return[`free, ${v(r)}`,c.used?"a gap be\
tween blocks":"an empty segment",i];let l=Et(t,o).slice(0,3).join(", "),f=s.released[o]<=e.row;return[[l,v(s.bytes[o]),Ms(t,o)].filter(Boolean).join(" \xB7 "),f?
"freed, waits for a stream":"",xn(t,s.stack[o]),i].filter(Boolean)}function Ms({allocations:t,header:e},n){let o=t.category[n];return o?e.categories[o-1]:null}function ks(t,e,n,o){
if(t.hidden=!o,!o)return;let r=o.allocation<0,a=(r?vf(e,n,o):Mf(e,n,o)).filter(([,l])=>l!=null&&l!=="").flatMap(([l,f])=>[h("dt",{},l),h("dd",{},String(f))]),c=r?
-1:e.allocations.stack[o.allocation],i=c>=0?Mn(e,c):[];t.replaceChildren(h("h4",{"aria-level":3},r?"Free memory":"Block"),h("dl",{class:"cl-facts"},...a),...i.length?
[h("h4",{"aria-level":3},"Allocated by"),h("pre",{class:"mm-stack"},i.join(`
`))]:[])}function An({header:t},e){return`0x${(BigInt(t.base)+BigInt(Math.round(e))).toString(16)}`}function kn(t){return`${v(t)} (${O(t)} bytes)`}function As(t,e,n){
let o=e.strips[n.strip],r=`${v(o.bytes)} at ${An(t,o.addr)}`;return[["pool",St(t.header.pools[o.pool])],["segment",`${r}${o.grows?", expandable":""}`],["segment\
 in use",L(100*o.used/o.bytes)]]}function vf(t,e,n){return[["size",kn(n.bytes)],["address",An(t,n.from)],...As(t,e,n)]}function Mf(t,e,n){let{allocation:o}=n,{bytes:r,
requested:s,released:a,addr:c}=t.allocations,{cell:i,num_tensors:l,graph:f,user_metadata:u}=Se(t,o),d=s[o];return[["held by",Et(t,o).join(", ")],["size",kn(r[o])],
["asked for",Number.isNaN(d)?null:kn(d)],["state",a[o]<=e.row?"freed, waits for a stream":"in use"],["category",Ms(t,o)??"unknown"],...kf(t,e,o),["cell",i],["li\
ve tensors",l],["graphs",f],["metadata",u],["address",An(t,c[o])],...As(t,e,n)]}function kf(t,e,n){let{allocations:o,clock:r,numRows:s}=t,[a,c]=[o.alloc[n],o.done[n]];
return[["allocated",a<0?"before the history":Y(t,a)],["age then",a>=0&&r?x(r[Math.max(e.row,0)]-r[a]):null],["freed",c<s?Y(t,c):null]]}function Ts(t,e){let n=Af(t,e),{allocated_bytes:o,active_bytes:r,reserved_bytes:s}=t.header.devices[e];return{allocated:Tn(n.allocated,o),active:Tn(n.active,r),
reserved:Tn(n.reserved,s)}}function Af({allocations:t,pieces:e,numRows:n,header:o,rest:r},s){let[a,c,i]=[0,1,2].map(()=>new Float64Array(n+1)),l=(u,d,p)=>{d>=0&&
d<n&&(u[d+1]+=p)};for(let u=0;u<t.n;u++){if(t.device[u]!==s)continue;let d=t.bytes[u];l(c,t.alloc[u],d),l(c,t.done[u],-d),l(a,t.alloc[u],d),l(a,t.released[u],-d)}
for(let u=0;u<e.n;u++)e.device[u]===s&&(l(i,e.added[u],e.bytes[u]),l(i,e.removed[u],-e.bytes[u]));let f=r.active.length/Math.max(o.devices.length,1);for(let u=0;u<
f;u++){let d=Math.min((u+1)*o.hidden.stretch,n)-1;l(a,d,r.allocated[s*f+u]),l(c,d,r.active[s*f+u])}return{allocated:a,active:c,reserved:i}}function Tn(t,e){let n=e-
t.reduce((o,r)=>o+r,0);for(let o=0;o<t.length;o++)n+=t[o],t[o]=n;return t}function Ss(t){let e=0;for(let n=1;n<t.length;n++)t[n]>t[e]&&(e=n);return e-1}function Es(t){let e={parent:[-1],frame:[-1],depth:[0],leaf:new Int32Array(t.n)},n=new Map;for(let o=0;o<t.n;o++){let r=t.idsOf(o),s=0;for(let a=r.length-1;a>=0;a--){
let c=s*t.numFrames+r[a],i=n.get(c);i===void 0&&(i=e.parent.length,n.set(c,i),e.parent.push(s),e.frame.push(r[a]),e.depth.push(e.depth[s]+1)),s=i}e.leaf[o]=s}return e}
function Os(t,e,n){let o=t.parent.length,[r,s]=[new Float64Array(o),new Float64Array(o)];for(let a of n){let c=e.stack[a]<0?0:t.leaf[e.stack[a]];r[c]+=e.bytes[a],
s[c]+=1}for(let a=o-1;a>0;a--)r[t.parent[a]]+=r[a],s[t.parent[a]]+=s[a];return{bytes:r,num:s}}function $s(t){let e=t.parent.map(()=>[]);for(let n=1;n<t.parent.length;n++)
e[t.parent[n]].push(n);return e}function _s(t,e,n){let o=e.stacks.n?Es(e.stacks):null,r=o?o.parent.length:-1,s=o?{...o,parent:[...o.parent,0],depth:[...o.depth,1]}:null,a=s?$s(s):[],c=l=>l&&o&&
l!==r?e.stacks.frameAt(o.frame[l]):null,i=be(t,{theme:n.theme,label:"Bytes by call stack",placeholder:"Search functions and files",searchLabel:"Search call stac\
ks",textOf(l){let f=c(l);return f?Ae(f):l?"no call stack":"all"},amountOf:(l,f)=>`${v(l)} (%) in ${$(f,"block")}`,format:v,notesOf:l=>[c(l)?.file??""],onZoom(l){
!l||!o?n.onZoom(null):n.onZoom(l===r?f=>f<0:Tf(o,l))}});return{...i,get root(){return i.root},get graph(){return i.graph},show(l){if(!o||!s)return;let{bytes:f,num:u}=Os(
o,e.allocations,l),{parent:d,depth:p}=s;i.show({parent:d,depth:p,children:a,weight:Cs(f,a[0]),num:Cs(u,a[0])})}}}function Cs(t,e){let n=e.slice(0,-1).reduce((r,s)=>r+
t[s],0),o=new Float64Array(t.length+1);return o.set(t),o[t.length]=t[0]-n,o}function Tf(t,e){let n=Uint8Array.from(t.leaf,o=>Sf(t,o,e)?1:0);return o=>o>=0&&n[o]===
1}function Sf({parent:t},e,n){for(let o=e;o>=0;o=t[o])if(o===n)return!0;return!1}var Ef=[{key:"requested",label:"asked for",meaning:"what programs asked for, of blocks in use",bytesOf:t=>t.active-t.internal},{key:"internal",label:"rounding",
meaning:"blocks in use that are larger than what was asked for",bytesOf:t=>t.internal},{key:"external",label:"gaps",meaning:"free memory in segments that hold s\
omething: it fits only what is small enough",bytesOf:t=>t.external},{key:"empty",label:"cached",meaning:"segments in which nothing is in use; torch.cuda.empty_c\
ache() returns them",bytesOf:t=>t.empty}];function Rs(t,{sums:e}){let n=Ef.map(s=>({...s,bytes:s.bytesOf(e)})),o=n.filter(({bytes:s})=>s>0).map(Of),r=n.map(({key:s,
label:a,meaning:c,bytes:i})=>h("span",{class:"mm-key",title:c},h("i",{class:`mm-is-${s}`}),`${a} ${v(i)} (${L(Ls(e,i))})`));t.replaceChildren(h("p",{},$f(e)),h(
"div",{class:"mm-bar",role:"img","aria-label":"Reserved memory by use"},...o),h("p",{class:"mm-legend"},...r))}function Of({key:t,label:e,bytes:n}){let o=h("spa\
n",{class:`mm-part mm-is-${t}`,title:`${e}: ${v(n)}`});return o.style.flexGrow=String(n),o}function Ls({reserved:t},e){return t?100*e/t:0}function $f(t){if(!t.reserved)
return"No memory was reserved.";let e=L(Ls(t,t.internal+t.external)),n=v(t.largest);return`Fragmentation ${e} of ${v(t.reserved)} reserved; the largest block th\
at fits without new memory is ${n}.`}var ct=["#0072b2","#e69f00","#009e73","#cc79a7","#56b4e9","#d55e00","#b8a400","#7a5cc4","#8c6d46","#3fb8a0","#c2476b"],Ee={light:"#9aa4af",dark:"#6f7b87"},Cf={light:[
"#fde08a","#f5ae4d","#e0733f","#b3404f","#7b2764","#421a5c"],dark:["#fff1b8","#fbc15e","#f08a4b","#d2555f","#a04a8f","#6d4fb0"]},Is={light:{gap:[238,241,245],hatch:[
188,197,207],dim:[214,220,227]},dark:{gap:[33,39,46],hatch:[73,84,96],dim:[52,60,69]}},Ns={category:"Category",stream:"Stream",age:"Age",stack:"Call stack"},_f={
category:Lf,stream:Pf,age:If,stack:Nf};function Ot([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}function Hs(t,e,n,o){let r=_f[n](t,e,o),s=r.css.map(pt);return{...r,
rgb:s,pixels:Uint32Array.from(s,Ot),edges:Uint32Array.from(s,a=>Ot(Rf(a,o)))}}function Rf(t,e){let n=e==="dark"?0:255,[o,r,s]=t.map(a=>Math.round(a+(n-a)*.45));
return[o,r,s]}function Lf(t,e,n){let{categories:o}=t.header,r=[Ee[n],...o.map((a,c)=>ct[c%ct.length])],s=Ut(t,e.allocations,"category");return{css:r,of:a=>t.allocations.
category[a],legend:s.map(({key:a,label:c})=>({css:r[Number(a)],label:c}))}}function Pf({header:t,allocations:e},n,o){let r=[...new Set(t.pools.map(({stream:i})=>i))];
r.sort((i,l)=>(i??1/0)-(l??1/0));let s=[Ee[o],...r.map((i,l)=>ct[l%ct.length])],a=t.pools.map(({stream:i})=>i===null?0:1+r.indexOf(i)),c=[...new Set(n.strips.map(
({pool:i})=>a[i]))].sort((i,l)=>i-l);return{css:s,of:i=>a[e.pool[i]],legend:c.map(i=>({css:s[i],label:i?`stream ${r[i-1]}`:"stream not recorded"}))}}var Ps=4;function If({
allocations:t,clock:e},n,o){let{alloc:r}=t,s=Cf[o],a=[Ee[o],...s],c=u=>e?e[Math.max(n.row,0)]-e[r[u]]:n.row-r[u],i=1;for(let u of n.allocations)r[u]>=0&&(i=Math.
max(i,c(u)));let l=u=>{if(r[u]<0)return 0;let d=Math.floor(Math.log(i/Math.max(c(u),i*1e-9))/Math.log(Ps));return s.length-Math.min(Math.max(d,0),s.length-1)},f=s.
map((u,d)=>{let p=i/Ps**(s.length-1-d),m=e?x(p):`${Math.round(p).toLocaleString("en-US")} actions`;return{css:u,label:`up to ${m}`}});return n.allocations.some(
u=>r[u]<0)&&f.push({css:a[0],label:"from before the history"}),{css:a,of:l,legend:f}}function Nf(t,e,n){let o=Ut(t,e.allocations,"stack"),r=o.filter(({key:i})=>Number(
i)>=0).slice(0,ct.length),s=new Map(r.map(({key:i},l)=>[Number(i),l+1])),a=Ee[n],c=r.map(({label:i},l)=>({css:ct[l],label:i}));return o.length>r.length&&c.push(
{css:a,label:"all others"}),{css:[a,...ct],of:i=>s.get(t.allocations.stack[i])??0,legend:c}}var Fs=1.6;function Ds(t,e){let{data:n}=t,o=h("div",{class:"mm-curve"}),r=h("div",{class:"mm-map"}),s=h("aside",{class:"mm-details","aria-label":"Chosen block",
hidden:!0}),a=h("p",{class:"mm-moment","aria-live":"polite"}),c=h("p",{class:"mm-legend"}),i=h("div",{class:"mm-fragmentation"}),l=h("div",{class:"mm-holders"}),
f=h("div",{class:"mm-flame"}),u=Hf(t,e),d=j("Colour",Ff(),t.color,e.onColor),p=j("By",Te(n),t.by,e.onGrouping);return{all:[...n.header.devices.length>1?[u.group]:
[],...n.numRows?[Df(n.clock!==null,e),o,zf()]:[],a,...Uf(n.header),i,h("div",{class:"mm-tools"},d.group,Bf(e)),c,h("div",{class:"mm-columns"},r,s),h("div",{class:"\
mm-tools"},h("h4",{"aria-level":3},"Who holds it"),p.group),l,...n.stacks.n?[h("h4",{"aria-level":3},"Bytes by call stack"),f]:[]],curve:o,map:r,details:s,moment:a,
legend:c,bar:i,holders:l,flame:f,devices:u,colors:d}}function Hf({data:t,device:e},{onDevice:n}){let o=t.header.devices.map(({label:r},s)=>[String(s),r]);return j(
"Device",o,String(e),r=>n(Number(r)))}function Ff(){return Object.entries(Ns).map(([e,n])=>[e,n.toLowerCase()])}function Df(t,{onAxis:e,onPeak:n,onEnd:o}){let r=[
["time","time"],["action","actions"]],s=h("div",{class:"mm-choice",role:"group","aria-label":"Moment"},Q("At the peak","Show the moment of the peak",n),Q("At th\
e end","Show the last moment",o)),a=t?j("Axis",r,"time",c=>e(c==="time")).group:null;return h("div",{class:"mm-tools"},Gr(),a,s)}function zf(){return h("p",{class:"\
cl-hint"},"Click or drag along the curve to see what was there then.")}function Bf({onZoom:t,onFit:e}){return h("div",{class:"mm-choice",role:"group","aria-labe\
l":"Zoom of the map"},Q("\u2212","Zoom out",()=>t(1/Fs)),Q("+","Zoom in",()=>t(Fs)),Q("fit","Show all",e))}function Uf({hidden:t}){if(!t.num)return[];let e=`${$(
t.num,"small allocation")} (${v(t.bytes)} together)`;return[h("p",{class:"cl-hint"},`${e} are in the curve and not in the map.`)]}function zs(t,e,n){let o=e.map(
({css:a,label:c})=>{let i=h("i",{});return i.style.background=a,h("span",{class:"mm-key",title:c},i,c)}),r=h("span",{class:"mm-key"},h("i",{class:"mm-waits"}),"\
waits for a stream"),s=h("span",{class:"mm-key"},h("i",{class:"mm-free"}),"free");t.replaceChildren(...o,...n?[r]:[],s)}function Sn(t,e,n){let{allocations:o}=t,r=Gf(o,e,n),s=Wf(t.pieces,e,n),a=Kf(o,r,s);Xf(a,o,r,n),n===t.numRows-1&&jf(a,t,e);let c=s.reduce((i,{first:l,end:f})=>i+
f-l,0);return{device:e,row:n,allocations:r,strips:s,sums:a,outside:r.length-c}}function Wf(t,e,n){let o=[];for(let r=0;r<t.n;r++){if(t.device[r]!==e||t.added[r]>
n||t.removed[r]<=n)continue;let[s,a,c,i]=[t.addr[r],t.bytes[r],t.pool[r],t.kind[r]],l=o.at(-1);l&&l.pool===c&&l.addr+l.bytes===s&&t.grows[r]&&l.grows?l.bytes+=a:
o.push({addr:s,bytes:a,pool:c,kind:i,grows:t.grows[r],first:0,end:0,used:0})}return o}function Gf(t,e,n){let o=new Int32Array(t.n),r=0;for(let s=0;s<t.n;s++){let a=t.
byAddress[s];t.alloc[a]<=n&&n<t.done[a]&&t.device[a]===e&&(o[r++]=a)}return o.slice(0,r)}function Kf(t,e,n){let o={reserved:0,active:0,allocated:0,pending:0,internal:0,
external:0,empty:0,largest:0},r=0;for(let s of n){let a=s.addr+s.bytes;for(;r<e.length&&t.addr[e[r]]<s.addr;)r++;s.first=r;let c=s.addr,i=0;for(;r<e.length&&t.addr[e[r]]<
a;r++){let l=e[r];i=Math.max(i,t.addr[l]-c),c=t.addr[l]+t.bytes[l],s.used+=t.bytes[l]}s.end=r,o.reserved+=s.bytes,o.largest=Math.max(o.largest,i,a-c),o[s.used?"\
external":"empty"]+=Math.max(s.bytes-s.used,0)}return o}function Xf(t,{bytes:e,released:n,requested:o},r,s){for(let a of r)t.active+=e[a],n[a]<=s?t.pending+=e[a]:
t.allocated+=e[a],Number.isNaN(o[a])||(t.internal+=e[a]-o[a])}function jf(t,{header:e},n){let{end:o,allocated_bytes:r,active_bytes:s,reserved_bytes:a}=e.devices[n];
Object.assign(t,o??{},{allocated:r,active:s,reserved:a}),t.pending=t.active-t.allocated}var et=16,En=14,Oe=22,Vf=[""," \xB7 small blocks"," \xB7 large blocks"];function On(t,e){let n=new Map;return e.strips.forEach((o,r)=>{let s=`${o.pool}/${o.kind}`,
a=n.get(s)??{strips:[],bytes:0,used:0,pool:o.pool,kind:o.kind,label:St(t.header.pools[o.pool])+Vf[o.kind]};a.strips.push(r),a.bytes+=o.bytes,a.used+=o.used,n.set(
s,a)}),[...n.values()].sort((o,r)=>o.pool-r.pool||r.kind-o.kind)}function $n(t,e,n,o){let r=n*o,s=[],a=[],c={strip:[],from:[],bytes:[],x:[]},i=0,l=()=>{a.push({
y:i,first:c.strip.length,end:c.strip.length}),i+=et},f=(u,d,p,m)=>{c.strip.push(u),c.from.push(d),c.bytes.push(p),c.x.push(m/o),a[a.length-1].end=c.strip.length};
for(let u of e){s.push({y:i,group:u}),i+=Oe,l();let d=0;for(let p of u.strips){let{bytes:m}=t.strips[p];d>0&&d+m>r&&(l(),d=0);for(let w=0;w<m;w+=r)w>0&&l(),f(p,
w,Math.min(r,m-w),d);let g=m>r?r:m;d+=g+qf(m/o)*o}i+=4}return{heads:s,lines:a,part:c,height:i,width:n,bytesPerPx:o}}function qf(t){return t>=12?3:t>=4?1:0}function Bs(t,e,n,o){
let r=Math.max(...e.map(c=>c.bytes),1),[s,a]=[r/n/4096,r*1.5/n];for(let c=0;c<24;c++){let i=Math.sqrt(s*a);$n(t,e,n,i).height>o?s=i:a=i}return a}function Wt(t,e){
let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r].y<=e?n=r+1:o=r}return n-1}function Cn(t,e,n,o,r){let[s,a]=[n,o];for(;s<a;){let c=s+a>>1;t.addr[e[c]]+t.bytes[e[c]]<=
r?s=c+1:a=c}return s}function Gt(t,e,n,o,r){let s=Wt(n.lines,r);if(s<0||r>n.lines[s].y+et)return null;let{part:a}=n;for(let c=n.lines[s].first;c<n.lines[s].end;c++){
let i=a.bytes[c]/n.bytesPerPx;if(o<a.x[c]||o>=a.x[c]+Math.max(i,1))continue;let l=e.strips[a.strip[c]];return Kt(t,e,a.strip[c],l.addr+a.from[c]+(o-a.x[c])*n.bytesPerPx)}
return null}function Kt(t,e,n,o){let{allocations:r}=t,s=e.strips[n],a=Cn(r,e.allocations,s.first,s.end,o),c=a<s.end?e.allocations[a]:-1;if(c>=0&&r.addr[c]<=o)return{
strip:n,allocation:c,from:r.addr[c],bytes:r.bytes[c]};let i=a>s.first?e.allocations[a-1]:-1,l=i<0?s.addr:r.addr[i]+r.bytes[i];return{strip:n,allocation:-1,from:l,
bytes:(c<0?s.addr+s.bytes:r.addr[c])-l}}function it(t,e,{strip:n,from:o,bytes:r}){let{part:s,lines:a,bytesPerPx:c}=e,i=o-t.strips[n].addr,l=[],f=s.strip.indexOf(
n),u=0;for(;f>=0&&f<s.strip.length&&s.strip[f]===n;f++){let[d,p]=[Math.max(i,s.from[f]),Math.min(i+r,s.from[f]+s.bytes[f])];if(!(d>=p)){for(;a[u].end<=f;)u++;l.
push({x:s.x[f]+(d-s.from[f])/c,y:a[u].y,width:(p-d)/c,height:En})}}return l}var Yf=6,[_n,Us,Zf]=[0,1,2],Rn=0,Jf=64,Qf=400;function Ws(t,e){let{layout:n,top:o,height:r,ratio:s}=e,a=tu(e),c=Math.floor(r*s),i=new ImageData(Math.max(a.width,
1),Math.max(c,1)),l=new Uint32Array(i.data.buffer),f=[],u=Math.max(Wt(n.lines,o),0);for(let d=u;d<n.lines.length&&n.lines[d].y<o+r;d++){let p=n.lines[d];eu(e,a,
p,f),ru(l,a,Math.round((p.y-o)*s),Math.round(En*s),c)}t.putImageData(i,0,0),t.save(),t.scale(s,s),t.textBaseline="middle",su(t,e),au(t,e,f),t.restore()}function tu({
layout:t,theme:e,ratio:n}){let o=Math.floor(t.width*n),{gap:r,hatch:s,dim:a}=Is[e];return{width:o,line:new Uint32Array(o),kind:new Uint8Array(o),weight:new Float32Array(
o),gap:Ot(r),hatch:Ot(s),dim:Ot(a)}}function eu(t,e,n,o){e.line.fill(Rn),e.kind.fill(_n),e.weight.fill(0);for(let r=n.first;r<n.end;r++)nu(t,e,r,n.y,o)}function nu(t,e,n,o,r){
let{data:s,moment:a,layout:c,ratio:i}=t,{addr:l,bytes:f}=s.allocations,{part:u}=c,d=a.strips[u.strip[n]],p=i/c.bytesPerPx,m=u.x[n]*i,[g,w]=[d.addr+u.from[n],u.bytes[n]],
b=Math.min(Math.max(Math.round(m+w*p),Math.round(m)+1),e.width);e.line.fill(e.gap,Math.round(m),b),e.kind.fill(Us,Math.round(m),b);let y=Cn(s.allocations,a.allocations,
d.first,d.end,g);for(let k=y;k<d.end;k++){let P=a.allocations[k],R=l[P]-g;if(R>=w)break;let I=m+Math.max(R,0)*p,He=m+Math.min(R+f[P],w)*p;ou(t,e,k,{low:I,high:He,
right:b,y:o},r)}}function ou({data:t,moment:e,ratio:n,codes:o,isDim:r,coloring:s},a,c,{low:i,high:l,right:f,y:u},d){let p=e.allocations[c],m=t.allocations.released[p]<=
e.row,g=r?.[c]===1,w=g?a.dim:s.pixels[o[c]],b=m?Zf:_n,y=Math.round(i),k=Math.min(Math.round(l),f);if(k-y<1){let R=Math.min(Math.floor(i),a.width-1);l-i>a.weight[R]&&
(a.weight[R]=l-i,a.line[R]=w,a.kind[R]=b);return}if(a.line.fill(w,y,k),a.kind.fill(b,y,k),a.weight.fill(1,y,k),k-y<=3*n)return;a.line.fill(g?Rn:s.edges[o[c]],k-
Math.round(n),k);let P=(k-y)/n;P>Jf&&d.length<Qf&&!g&&!m&&d.push({allocation:p,code:o[c],x:y/n,width:P,y:u})}function ru(t,e,n,o,r){let{width:s,line:a,kind:c}=e;
for(let i=Math.max(n,0);i<Math.min(n+o,r);i++){let l=i*s;t.set(a,l);for(let f=0;f<s;f++){if(c[f]===_n)continue;let u=(f+i)%Yf;c[f]===Us?u===0&&(t[l+f]=e.hatch):
u<2&&(t[l+f]=Rn)}}}function su(t,{layout:e,top:n,height:o,ink:r,font:s}){t.font=`600 12px ${s}`,t.fillStyle=r;for(let{y:a,group:c}of e.heads){if(a+Oe<n||a>n+o)continue;
let i=$(c.strips.length,"segment"),l=v(Math.max(c.bytes-c.used,0)),f=`${c.label}: ${v(c.bytes)} in ${i}, ${l} free`;t.fillText(Gs(t,f,e.width),0,a-n+Oe/2+1)}}function au(t,{
data:e,coloring:n,top:o,font:r},s){t.font=`11px ${r}`;for(let{allocation:a,code:c,x:i,width:l,y:f}of cu(s)){let[u,d,p]=n.rgb[c];t.fillStyle=.299*u+.587*d+.114*p>
140?"#000000":"#ffffff";let m=Gs(t,iu(e,a),l-8);m&&t.fillText(m,i+4,f-o+et/2-.5)}}function cu(t){let e=new Map;for(let n of t){let o=e.get(n.allocation);(o===void 0||
n.width>o.width)&&e.set(n.allocation,n)}return e.values()}function Gs(t,e,n){if(t.measureText(e).width<=n)return e;let o=Math.min(e.length,Math.floor(n/3));for(;o>
2&&t.measureText(`${e.slice(0,o)}\u2026`).width>n;)o--;return o>2?`${e.slice(0,o)}\u2026`:""}function iu(t,e){let[n]=Et(t,e),o=v(t.allocations.bytes[e]);return n?
`${n} \xB7 ${o}`:o}function Ks(t,e,n){let{picture:o}=t;!o?.moment.strips.length||e.altKey||e.ctrlKey||e.metaKey||lu(t,o,e.key,n)&&(e.preventDefault(),e.stopPropagation())}function lu(t,e,n,{
choose:o,zoom:r}){let s=Xs(e);if(n==="ArrowRight"||n==="ArrowLeft")o(Vs(t,e,n==="ArrowRight"?1:-1),!0);else if(n==="ArrowDown"||n==="ArrowUp")o(fu(t,e,n==="Arro\
wDown"?1:-1),!0);else if(n==="Home")o(Ln(t,e,s[0]),!0);else if(n==="End")o(js(t,e,s[s.length-1]),!0);else if(n==="+"||n==="=")r(1.6);else if(n==="-")r(1/1.6);else if(n===
"0")r(1/t.zoom);else if(n==="Escape"&&t.chosen)o(null,!1);else return!1;return!0}function Xs({groups:t}){return t.flatMap(e=>e.strips)}function Ln({data:t},{moment:e},n){
return Kt(t,e,n,e.strips[n].addr)}function js({data:t},{moment:e},n){let o=e.strips[n];return Kt(t,e,n,o.addr+o.bytes-1)}function Vs(t,e,n){let o=Xs(e),{chosen:r,
data:s}=t;if(!r)return Ln(t,e,o[0]);let a=e.moment.strips[r.strip],c=n>0?r.from+r.bytes:r.from-1;if(c>=a.addr&&c<a.addr+a.bytes)return Kt(s,e.moment,r.strip,c);
let i=o.indexOf(r.strip)+n;return i<0||i>=o.length?r:n>0?Ln(t,e,o[i]):js(t,e,o[i])}function fu(t,e,n){let{chosen:o,data:r,width:s}=t,{moment:a,layout:c}=e;if(!o)
return Vs(t,e,1);let i=it(a,c,o).at(n>0?-1:0),l=i&&c.lines[Wt(c.lines,i.y)+n];return l?Gt(r,a,c,Math.min(i.x+1,s-2),l.y+1)??Gt(r,a,c,c.part.x[l.first],l.y+1):o}var Zs=420,uu=60,du=6e4;function Js(t,e,n){let o=hu(e,n);return t.replaceChildren(o.scroller,o.tip,o.spoken),bu(o),{show:r=>pu(o,r),setColor(r){return o.color=r,
$e(o)},setDim(r){o.isDimmed=r,$e(o)},choose:r=>Pn(o,r,!0),zoomBy:r=>Ce(o,r,null),fit:()=>Ce(o,1/o.zoom,null),setTheme(r){return o.theme=r,$e(o)},resize(){o.picture&&
o.scroller.clientWidth!==o.width&&In(o,o.picture.moment)},stats:()=>({script:o.script,zoom:o.zoom,lines:o.picture?.layout.lines.length??0}),hitAt:(r,s)=>_e(o,{x:r,
y:s}),boxesOf:r=>o.picture?it(o.picture.moment,o.picture.layout,r):[],destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function hu(t,e){let n=h("\
canvas",{class:"mm-canvas",tabindex:0,role:"application","aria-label":"Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."}),o=h("ca\
nvas",{class:"mm-over","aria-hidden":"true"}),r=h("div",{class:"mm-spacer"}),s=h("div",{class:"mm-stage"},n,o);return{data:t,options:e,canvas:n,over:o,stage:s,spacer:r,
scroller:h("div",{class:"mm-scroll"},s,r),tip:h("div",{class:"mm-tip",hidden:!0}),spoken:h("p",{class:"mm-said","aria-live":"polite"}),theme:e.theme,color:e.color,
isDimmed:null,zoom:1,hover:null,chosen:null,picture:null,colors:null,width:0,height:0,ratio:1,numLines:3,pending:0,script:[]}}function pu(t,e){let{picture:n}=t;
if(t.hover=null,t.tip.hidden=!0,n&&mu(n.moment,e)){let o=On(t.data,e);o.forEach((r,s)=>{n.layout.heads[s].group=r}),t.picture={...n,moment:e,groups:o}}else In(t,
e);return $e(t)}function mu(t,e){return t.device!==e.device||t.strips.length!==e.strips.length?!1:e.strips.every(({addr:n,bytes:o,pool:r,kind:s},a)=>{let c=t.strips[a];
return n===c.addr&&o===c.bytes&&r===c.pool&&s===c.kind})}function In(t,e,n=null){let o=On(t.data,e);t.width=Math.max(t.scroller.clientWidth||t.width,160);let r=Bs(
e,o,t.width,gu(t,e,o)),s=$n(e,o,t.width,r/t.zoom);t.picture={moment:e,groups:o,layout:s},t.height=Math.max(Math.min(s.height,Zs),uu),t.ratio=Math.min(devicePixelRatio||
1,2),t.scroller.style.height=`${t.height}px`,t.stage.style.height=`${t.height}px`,t.spacer.style.height=`${Math.max(s.height-t.height,0)}px`;for(let a of[t.canvas,
t.over])a.width=Math.floor(t.width*t.ratio),a.height=Math.floor(t.height*t.ratio),a.style.width=`${t.width}px`,a.style.height=`${t.height}px`;if(n){let[a]=it(e,
s,n.hit);a&&(t.scroller.scrollTop=a.y-n.y)}Nn(t)}function gu(t,e,n){return t.numLines=Math.max(t.numLines,Math.ceil(e.allocations.length/4),e.strips.length),Math.
min(Zs-4,n.length*26+t.numLines*et)}function $e(t){if(!t.picture)return[];let{moment:e}=t.picture,{isDimmed:n}=t,o=Hs(t.data,e,t.color,t.theme);return t.colors=
{coloring:o,codes:Uint16Array.from(e.allocations,o.of),isDim:n&&Uint8Array.from(e.allocations,r=>n(r)?1:0)},Nn(t),o.legend}function Nn(t){t.pending||(t.pending=
requestAnimationFrame(()=>{t.pending=0;let{picture:e,colors:n}=t;e&&n?.codes.length===e.moment.allocations.length&&wu(t,e,n)}))}function wu(t,{moment:e,layout:n},o){
let{data:r,theme:s,height:a,ratio:c}=t,i=performance.now(),l=getComputedStyle(t.canvas),[f,u,d]=[l.color,l.fontFamily,t.scroller.scrollTop];Ws(N(t.canvas),{data:r,
moment:e,layout:n,...o,theme:s,top:d,height:a,ratio:c,ink:f,font:u}),Hn(t),t.script.push(performance.now()-i),t.script.length>2e3&&t.script.splice(0,1e3)}function Hn(t){
let{picture:e,hover:n,chosen:o}=t,r=N(t.over);r.setTransform(t.ratio,0,0,t.ratio,0,0),r.clearRect(0,0,t.width,t.height),e&&(r.strokeStyle=getComputedStyle(t.canvas).
color,n&&qs(t,e,r,n,1.5),o&&qs(t,e,r,o,2.5))}function qs({scroller:t,height:e},{moment:n,layout:o},r,s,a){if(s.strip>=n.strips.length)return;let c=t.scrollTop;r.
lineWidth=a;for(let i of it(n,o,s))i.y+et<c||i.y>c+e||r.strokeRect(i.x-.5,i.y-c-.5,Math.max(i.width,2)+1,i.height+1)}function Ce(t,e,n){if(!t.picture)return;let{
moment:o,layout:r}=t.picture,s=n?n.y:t.height/3,a=_e(t,{x:n?n.x:1,y:s}),c=Math.max(du/Math.max(r.lines.length,1)*t.zoom,1);t.zoom=Math.min(Math.max(t.zoom*e,1),
c),t.tip.hidden=!0,In(t,o,a&&{hit:{...a,bytes:Math.max(a.bytes,1)},y:s})}function _e({data:t,picture:e,scroller:n},{x:o,y:r}){return e&&Gt(t,e.moment,e.layout,o,
r+n.scrollTop)}function bu(t){let{canvas:e,scroller:n}=t,o=s=>{let a=e.getBoundingClientRect();return{x:s.clientX-a.left,y:s.clientY-a.top}},r=s=>{!(s.ctrlKey||
s.metaKey)||!t.picture||(s.preventDefault(),Ce(t,Math.exp(-s.deltaY/200),o(s)))};n.addEventListener("scroll",()=>Nn(t)),n.addEventListener("wheel",r,{passive:!1}),
e.addEventListener("pointermove",s=>{let a=o(s);t.picture&&Ys(t,_e(t,a),a)}),e.addEventListener("pointerleave",()=>Ys(t,null,{x:0,y:0})),e.addEventListener("cli\
ck",s=>{t.picture&&Pn(t,_e(t,o(s)),!1)}),e.addEventListener("keydown",s=>Ks(t,s,{choose:(a,c)=>Pn(t,a,c),zoom:a=>Ce(t,a,null)}))}function Ys(t,e,n){let{tip:o}=t,
r=e!==null&&e.strip===t.hover?.strip&&e.from===t.hover.from;if(t.hover=e,o.hidden=!e,e){r||o.replaceChildren(...t.options.describe(e).map(c=>h("div",{},c)));let s=Math.
min(n.x+14,t.width-o.offsetWidth-4),a=n.y+18+o.offsetHeight<t.height;o.style.left=`${Math.max(s,0)}px`,o.style.top=`${a?n.y+18:Math.max(n.y-o.offsetHeight-8,0)}\
px`}r||Hn(t)}function Pn(t,e,n){let{picture:o,scroller:r,height:s,options:a}=t;if(t.chosen=e,e&&o&&n){let[c]=it(o.moment,o.layout,e),i=r.scrollTop;c&&(c.y<i||c.
y+et>i+s)&&(r.scrollTop=c.y-s/2)}o&&Hn(t),t.spoken.textContent=e?a.describe(e).join(", "):"",a.onChoose(e)}var yu=80;async function Qs(t,e,{theme:n}){let o=xu(await ws(e),n),{data:r,parts:s,curve:a,pool:c,flame:i}=o;return t.replaceChildren(...s.all),Fn(o,o.device),o.
peak&&lt(o,o.peak.row,null),cancelAnimationFrame(o.pending),ta(o),{data:r,get moment(){return o.moment},get chosen(){return o.chosen},get since(){return o.since},
pool:c,curve:a,flame:i,showMoment:(l,f=null)=>lt(o,l,f),showStretch:(l,f)=>ku(o,l,f),showDevice:l=>Fn(o,l),setColor:l=>ea(o,l),setTheme(l){a.setTheme(l),zn(o,c.
setTheme(l)),i.setTheme(l)},resize(){for(let l of[a,c,i])l.resize()},destroy(){cancelAnimationFrame(o.pending),clearTimeout(o.settling);for(let l of[a,c,i])l.destroy();
t.replaceChildren()}}}function xu(t,e){let n=Mu(t),o=vu(t),r=Sn(t,o,t.numRows-1),s={data:t,device:o,row:t.numRows-1,since:null,moment:r,counted:r.allocations,peak:null,
by:n,picked:null,color:n,chosen:null,isInNode:null,isSettled:!1,pending:0,settling:void 0},a=Ds(s,{onDevice:i=>Fn(c,i),onAxis:i=>c.curve.setAxis(i),onPeak:()=>c.
peak&&lt(c,c.peak.row,null),onEnd:()=>lt(c,t.numRows-1,null),onZoom:i=>c.pool.zoomBy(i),onFit:()=>c.pool.fit(),onColor:i=>ea(c,i),onGrouping:i=>Cu(c,i)}),c=Object.
assign(s,{parts:a,curve:gs(a.curve,t,{theme:e,onMoment:(i,l)=>lt(c,i,l)}),pool:Js(a.map,t,{theme:e,color:n,describe:i=>vs(t,c.moment,i),onChoose:i=>_u(c,i)}),flame:_s(
a.flame,t,{theme:e,onZoom(i){c.isInNode=i,Re(c)}})});return c}function vu({header:t}){let{devices:e}=t;return e.reduce((n,o,r)=>o.reserved_bytes>e[n].reserved_bytes?
r:n,0)}function Mu({allocations:t,stacks:e}){return t.category.some(n=>n>0)||!e.n?"category":"stack"}function Fn(t,e){let{data:n}=t;if(t.device=e,t.parts.devices.
mark(String(e)),t.picked=null,n.numRows){let o=Ts(n,e),r=Ss(o.allocated);t.peak={row:r,bytes:o.allocated[r+1]};let{index:s}=n.header.devices[e],a=n.header.marks.
filter(c=>c.device===null||c.device===s);t.curve.show(o,t.peak,a)}lt(t,t.row,t.since)}function lt(t,e,n){t.row=e,t.since=n,t.data.numRows&&t.curve.setMoment(e,n),
cancelAnimationFrame(t.pending),t.pending=requestAnimationFrame(()=>ta(t))}function ku(t,[e,n],o){let{clock:r,header:s}=t.data;if(!r)return;let a=Number(BigInt(
o)-BigInt(s.t0)),[c,i]=[xe(r,e+a),xe(r,n+a)];lt(t,i,c===i?null:c)}function ta(t){let{data:e,row:n,since:o,parts:r,chosen:s}=t,{alloc:a}=e.allocations;t.moment=Sn(
e,t.device,n),t.counted=t.moment.allocations.filter(c=>o===null||a[c]>o),r.moment.replaceChildren(...Su(t)),Rs(r.bar,t.moment),zn(t,t.pool.show(t.moment)),Re(t),
clearTimeout(t.settling),t.settling=setTimeout(()=>Au(t),t.isSettled?yu:0),s&&t.pool.choose(Tu(t,s.allocation))}function Au(t){t.isSettled=!0,Dn(t),t.flame.show(
t.counted)}function Tu({data:t,moment:e},n){let{addr:o,bytes:r}=t.allocations,s=n<0?-1:e.allocations.indexOf(n),a=e.strips.findIndex(({first:c,end:i})=>c<=s&&s<
i);return a<0?null:{strip:a,allocation:n,from:o[n],bytes:r[n]}}function Su({data:t,row:e,since:n,moment:o,counted:r,peak:s}){let{sums:a}=o,c=Ou(t,e,s),i=$(o.allocations.
length,"block"),l=$(o.strips.length,"segment"),f=`${v(a.allocated)} allocated in ${i}, ${v(a.reserved)} reserved in ${l}`,u=a.pending?`, ${v(a.pending)} freed a\
nd waiting for a stream`:"",d=o.outside?`; ${$(o.outside,"block")} in no known segment`:"",p=n===null?"":$u(t,r,n),m=e===t.numRows-1?Eu(t,o):"";return[h("strong",
{},`${c}: `),`${f}${u}${d}${m}.${p}`]}function Eu({allocations:{alloc:t,bytes:e}},n){let o=0;for(let r of n.allocations)t[r]<0&&(o+=e[r]);return o?`; ${v(o)} of\
 it from before the recording`:""}function Ou(t,e,n){return e===n?.row?`At the peak (${Y(t,e)})`:e===t.numRows-1?"At the end":e<0?"Before the first action":`Aft\
er ${Y(t,e)}`}function $u(t,e,n){let o=e.reduce((s,a)=>s+t.allocations.bytes[a],0),r=$(e.length,"block");return` ${v(o)} of it in ${r} came since ${Y(t,n)} and \
stayed; the rest is pale.`}function Dn(t){ys(t.parts.holders,t.data,t.counted,{by:t.by,picked:t.picked,onPick(e){t.picked=e,Dn(t),Re(t)}})}function Re({data:t,pool:e,
since:n,picked:o,by:r,isInNode:s}){if(n===null&&o===null&&!s){e.setDim(null);return}let{alloc:a,stack:c}=t.allocations;e.setDim(i=>n!==null&&a[i]<=n||o!==null&&
vn(t,i,r)!==o||s!==null&&!s(c[i]))}function Cu(t,e){t.by=e,t.picked=null,Dn(t),Re(t)}function ea(t,e){t.color=e,t.parts.colors.mark(e),zn(t,t.pool.setColor(e))}
function zn({parts:t,moment:e},n){zs(t.legend,n,e.sums.pending>0)}function _u(t,e){let{details:n}=t.parts;t.chosen=e;let o=n.hidden;ks(n,t.data,t.moment,e),o!==
n.hidden&&t.pool.resize()}var Ru=1500;function na(t){let e=z(t),[n]=_(e,".cl-race-code",HTMLElement);n&&Pu(n);let[o]=_(e,":scope > .cudalens-race-value",HTMLElement);return o&&Lu(e,o),e}
function Lu(t,e){let n=`cl-race-tab-${Math.random().toString(36).slice(2)}`,o=[...t.children].filter(i=>i!==e&&!i.matches("h4, .cl-race-what")),r=h("div",{class:"\
cl-race-panel"},...o),s=[r,e],a=["Accesses","Values"].map((i,l)=>h("button",{type:"button",role:"tab",id:`${n}-${l}`,"data-lm-suppress-shortcuts":"true"},i)),c=i=>{
for(let[l,f]of a.entries())f.setAttribute("aria-selected",String(l===i)),f.tabIndex=l===i?0:-1,s[l].hidden=l!==i};for(let[i,l]of s.entries())l.setAttribute("rol\
e","tabpanel"),l.setAttribute("aria-labelledby",`${n}-${i}`),a[i].addEventListener("click",()=>c(i)),a[i].addEventListener("keydown",f=>{f.key!=="ArrowLeft"&&f.
key!=="ArrowRight"||(f.preventDefault(),f.stopPropagation(),c(1-i),a[1-i].focus())});t.append(h("div",{class:"cl-race-tabs",role:"tablist","aria-label":"What is\
 known of the race"},...a),r,e),c(e.querySelector(".cl-value-confirmed")?1:0)}function Pu(t){let e=t.textContent,n=h("div",{class:"cl-race-copy"}),o=h("button",
{type:"button",class:"cl-button","data-lm-suppress-shortcuts":"true"},"Copy");o.addEventListener("click",async()=>{o.textContent=await Iu(e,t)?"Copied":"Selecte\
d: press Ctrl+C",setTimeout(()=>{o.textContent="Copy"},Ru)}),t.replaceWith(n),n.append(t,o)}async function Iu(t,e){try{return await navigator.clipboard.writeText(
t),!0}catch{return getSelection()?.selectAllChildren(e),document.execCommand("copy")}}var Nu=4,oa=10;function ra(t,e,{onChoose:n}={}){let o={model:e,onChoose:n,kind:null,at:0,shown:e.races,cards:new Map,items:[],id:`cl-race-${Math.random().toString(
36).slice(2)}`,list:h("ul",{class:"cl-race-list",role:"listbox",tabindex:"0","aria-label":"Races, worst first","data-lm-suppress-shortcuts":"true"}),card:h("div",
{class:"cl-race-host","aria-live":"polite"}),tools:h("div",{class:"cl-race-tools",role:"group","aria-label":"Kinds of races"})},r=e.races.length===1,s=r?o.card:
h("div",{class:"cl-race-split"},o.list,o.card);return r||(Hu(o),Uu(o)),t.replaceChildren(...o.tools.childElementCount?[o.tools]:[],s),ca(o),{choose:a=>Bu(o,a),chosen:()=>o.
shown[o.at].row,setTheme(){},destroy:()=>t.replaceChildren()}}function Hu(t){let{races:e,more:n}=t.model,o=new Map;for(let{kind:r,title:s}of e)o.set(r,{title:s,
number:(o.get(r)?.number??0)+1});if(o.size>1&&e.length>=Nu){let r=[...o].map(([s,{title:a,number:c}])=>({kind:s,text:`${a} ${O(c)}`}));for(let{kind:s,text:a}of[
{kind:null,text:`all ${O(e.length)}`},...r])t.tools.append(Fu(t,s,a))}if(n){let r=`and ${$(n,"race")} more in trace.races`;t.tools.append(h("span",{class:"cl-hi\
nt"},r))}}function Fu(t,e,n){let o=()=>{t.kind=e,sa(t),aa(t)},s={type:"button",class:"cl-button","aria-pressed":String(e===t.kind),onclick:o};return h("button",
{...s,"data-kind":e??""},n)}function sa({tools:t,kind:e}){for(let n of _(t,"button",HTMLButtonElement))n.setAttribute("aria-pressed",String(n.dataset.kind===(e??
"")))}function aa(t){let e=t.shown[t.at];t.shown=t.model.races.filter(n=>t.kind===null||n.kind===t.kind),t.at=Math.max(0,t.shown.indexOf(e)),ca(t)}function ca(t){
t.items=t.shown.map((e,n)=>Du(t,e,n)),t.list.replaceChildren(...t.items),Bn(t,t.at)}function Du(t,e,n){let o=t.model.races.indexOf(e)+1;return h("li",{role:"opt\
ion",id:`${t.id}-${n}`,"aria-selected":"false",onclick:()=>ia(t,n)},h("b",{},`${O(o)}. ${e.title}`),` of ${e.tensor}, ${e.times}`,...e.places.map(r=>h("small",{},
r)))}function Bn(t,e){t.items[t.at]?.setAttribute("aria-selected","false"),t.at=e;let n=t.shown[e],o=t.items[e];o.setAttribute("aria-selected","true"),t.list.setAttribute(
"aria-activedescendant",o.id),zu(t.list,o);let r=t.cards.get(n)??na(n.card);t.cards.set(n,r),t.card.replaceChildren(r)}function zu(t,e){let n=e.offsetTop-t.offsetTop;
n<t.scrollTop?t.scrollTop=n:n+e.offsetHeight>t.scrollTop+t.clientHeight&&(t.scrollTop=n+e.offsetHeight-t.clientHeight)}function ia(t,e){Bn(t,e),t.onChoose?.(t.shown[e])}
function Bu(t,e){t.shown.some(o=>o.row===e)||(t.kind=null,sa(t),aa(t));let n=t.shown.findIndex(o=>o.row===e);n>=0&&Bn(t,n)}function Uu(t){t.list.addEventListener(
"keydown",e=>{if(e.ctrlKey||e.metaKey||e.altKey)return;let n=t.shown.length-1,o={ArrowDown:t.at+1,ArrowUp:t.at-1,Home:0,End:n,PageDown:t.at+oa,PageUp:t.at-oa};e.
key in o&&(e.preventDefault(),e.stopPropagation(),ia(t,Math.min(Math.max(o[e.key],0),n)))})}async function Le(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("gzip"));return new Uint8Array(await new Response(e).arrayBuffer())}async function Un(t){
return JSON.parse(new TextDecoder().decode(await Le(t)))}var la=Symbol.for("cudalens.libraries");function Wu(){let t=globalThis;return t[la]??=new Map,t[la]}async function Wn(t,e,n,o=""){
let r=Wu(),s=`${t}@${e}`,a=`${s} from ${o}`,c=()=>r.get(s)??r.get(a);for(let l=c();l;l=c()){let f=await l.catch(()=>null);if(f)return f.default}let i=n(t).then(
Le).then(Gu);return r.set(a,i),i.then(()=>r.set(s,i)).catch(()=>{}).then(()=>r.delete(a)),(await i).default}var fa=["$","moduleName"];async function Gu(t){let e=URL.
createObjectURL(new Blob([t],{type:"text/javascript"})),n=fa.map(o=>Object.getOwnPropertyDescriptor(globalThis,o));try{let o=await import(e);return"default"in o?
o:{default:Reflect.get(globalThis,"moduleName")}}finally{URL.revokeObjectURL(e),fa.forEach((o,r)=>{let s=n[r];s?Object.defineProperty(globalThis,o,s):Reflect.deleteProperty(
globalThis,o)})}}function ua(t,e,n){let o=Math.random().toString(36).slice(2),r=new Set,s="",a=n.map(({key:f})=>h("div",{id:`cl-${o}-${f}`,class:"cl-tab-panel",role:"tabpanel",hidden:!0})),
c=n.map(({key:f,title:u})=>h("button",{type:"button",class:"cl-tab",role:"tab","data-key":f,"aria-controls":`cl-${o}-${f}`,"data-lm-suppress-shortcuts":"true",onclick:()=>i(
f)},u)),i=f=>{s=f,n.forEach((u,d)=>{let p=u.key===f;c[d].setAttribute("aria-selected",String(p)),c[d].tabIndex=p?0:-1,a[d].hidden=!p,p&&r.has(f)&&u.onShow?.(),!(!p||
r.has(f))&&(r.add(f),u.fill(a[d]))})},l=h("div",{class:"cl-tabs",role:"tablist","aria-label":e},...c);return l.addEventListener("keydown",f=>{let u={ArrowRight:1,
ArrowLeft:-1}[f.key];if(u===void 0)return;let d=(c.findIndex(p=>p.dataset.key===s)+u+n.length)%n.length;i(n[d].key),c[d].focus(),f.preventDefault(),f.stopPropagation()}),
t.replaceChildren(l,...a),n.length&&i(n[0].key),{show:i,current:()=>s}}var Ku=2,Xu=18,ju=18;function da(t){let e=_(t,"tr[data-depth]",HTMLTableRowElement),n=e.map(c=>Number(c.dataset.depth)),o=n.map((c,i)=>i+1<n.length&&n[i+1]>c),r=n.
map(c=>c<Ku);e.forEach((c,i)=>{let l=c.cells[0].querySelector(".cl-place");l&&(l.textContent=l.textContent?.replace(/^[\u203a ]+/,"")??""),c.cells[0].style.paddingInlineStart=
`${Xu*n[i]+(o[i]?0:ju)+10}px`});let s=e.map((c,i)=>{if(!o[i])return null;let l=()=>{r[i]=!r[i],a()},f=c.cells[0].textContent,u=h("button",{type:"button",class:"\
cl-fold","aria-label":`Modules in ${f}`});return u.addEventListener("click",d=>{d.stopPropagation(),l()}),c.cells[0].prepend(u),u}),a=()=>{let c=1/0;e.forEach((i,l)=>{
n[l]<=c&&(c=1/0),i.hidden=n[l]>c,s[l]?.setAttribute("aria-expanded",String(r[l])),s[l]&&(s[l].textContent=r[l]?"\u25BE":"\u25B8"),!i.hidden&&o[l]&&!r[l]&&(c=n[l])})};
a()}var ha="ProfilerStep*",Vu=new Set(["Trace","overhead","gpu_user_annotation","cuda_sync"]);function pa(t){let e=Float64Array.from(t.self),n=new Int32Array(t.n);for(let a=0;a<
t.n;a++)n[a]=t.flags[a]&C.folded?n[t.parent[a]]:a,n[a]!==a&&(e[n[a]]+=t.self[a]);let o=Uint32Array.from(t.header.names.keys()),r=t.header.step_names;for(let a of r)
o[a]=r[0];let s=Uint8Array.from(t.header.lanes,a=>+(a.kind==="device"));return{self:e,group:o,steps:r,device:s}}function ma(t,e,n){let{n:o,flags:r,lane:s,name:a,
dur:c}=t,{self:i,group:l,device:f}=e,u=C.folded|C.instant,d=qu(2*t.header.names.length);for(let m=0;m<o;m++){if(n!==null&&!n[m]||r[m]&u)continue;let g=l[a[m]]*2+
f[s[m]];d.count[g]===0&&(d.first[g]=m),d.self[g]+=i[m],r[m]&C.waiting||(d.cost[g]+=i[m]),Yu(d,g,c[m])}let p=[...d.count.keys()].filter(m=>d.count[m]).sort((m,g)=>d.
first[m]-d.first[g]);return Ju(p.map(m=>Zu(t,e,d,m)))}function qu(t){let e=()=>new Float64Array(t);return{first:new Int32Array(t),count:e(),total:e(),self:e(),cost:e(),
min:e().fill(1/0),max:e().fill(-1/0),mean:e(),spread:e()}}function Yu(t,e,n){t.count[e]+=1,t.total[e]+=n,n<t.min[e]&&(t.min[e]=n),n>t.max[e]&&(t.max[e]=n);let o=n-
t.mean[e];t.mean[e]+=o/t.count[e],t.spread[e]+=o*(n-t.mean[e])}function Zu(t,e,n,o){let r=o>>1,s=e.steps.includes(r),[a,c]=[n.count[o],n.total[o]];return{ids:s?
e.steps:[r],name:s?ha:t.header.names[r],short:s?ha:U(t.header,r),side:o&1,cat:t.header.cats[t.cat[n.first[o]]],count:a,total:c,self:n.self[o],cost:n.cost[o],min:n.
min[o],max:n.max[o],mean:c/a,std:a>1?Math.sqrt(n.spread[o]/(a-1)):null}}function Ju(t){let e=o=>Vu.has(o.cat)?0:o.cost,n=[0,0];for(let o of t)n[o.side]+=e(o);return t.
map(({cost:o,...r})=>({...r,share:n[r.side]>0?100*e({...r,cost:o})/n[r.side]:0}))}var Qu={cpu_op:"CPU op",user_annotation:"range",gpu_user_annotation:"GPU range",cuda_runtime:"runtime",cuda_driver:"driver",kernel:"kernel",gpu_memcpy:"copy",gpu_memset:"\
set",python_function:"Python",cuda_sync:"sync",overhead:"overhead"};function td({mean:t,std:e}){let n=e!==null?` <span class="spread">\xB1 ${x(e)}</span>`:"";return`${x(
t)}${n}`}function ed({share:t,side:e}){let n=e?"GPU":"CPU";return`<span class="bar"><i style="width:${t.toFixed(1)}%"></i></span>${L(t)} ${n}`}function nd({name:t,
short:e}){return`<span class="name" title="${Yt(t)}">${Yt(e)}</span>`}function ga({cat:t}){return Qu[t]??t}function $t(t,e,n,o){let r=e==="name"||e==="cat";return{
title:t,data:e,...r?{}:{className:"number"},render:(s,a,c)=>a==="display"?o(c):n(c),searchable:r,orderSequence:["desc","asc"]}}function Pe(t,e){return $t(t,e,n=>n[e],
n=>x(n[e]))}var Gn=[$t("Name","name",t=>`${t.short} ${t.name}`,nd),$t("Kind","cat",ga,t=>`<span class="kind">${Yt(ga(t))}</span>`),$t("Count","count",t=>t.count,
t=>O(t.count)),Pe("Total","total"),Pe("Self","self"),$t("Mean \xB1 sd","mean",t=>t.mean,td),Pe("Min","min"),Pe("Max","max"),$t("Share of self","share",t=>t.share,
ed)];function ft(t){return Gn.findIndex(e=>e.data===t)}var wa=ft("share"),Ie=[{width:1e3,columns:[ft("min"),ft("max")]},{width:760,columns:[ft("cat"),ft("total")]},
{width:600,columns:[ft("mean"),ft("count")]}];var ba=`
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
`;var od=[["All",null],["GPU",1],["CPU",0]];function va(t,e,{DataTable:n,styleSheet:o,theme:r,onNames:s}){let a=t.shadowRoot??t.attachShadow({mode:"open"}),c=h("t\
able",{class:"display compact","aria-label":"Costs by name"});a.replaceChildren(h("style",{},o),h("style",{},ba),c),n.ext.errMode="throw";let i=pa(e),l=new Set(
i.device).size>1,f={rows:[],side:null,chosen:new Set,width:0,stage:"shown",isWhole:!1},u=new n(c,{...sd(),layout:{topStart:l?[()=>ad(f,()=>ya(u,f,"summed")),"in\
fo"]:"info",topEnd:"search",bottomStart:"pageLength",bottomEnd:"paging"},rowCallback:(g,w)=>xa(g,w,f.chosen)});rd(a),cd(u,f,c,s);let d=fd(f,()=>Kn(u,f,t));a.append(
d);let p=new ResizeObserver(()=>Kn(u,f,t));p.observe(t),Kn(u,f,t);let m=g=>{t.classList.toggle("dark",g==="dark")};return m(r),{sum(g){f.rows=ma(e,i,g),f.stage=
"summed"},load:()=>Ma(u,f),update:()=>ya(u,f,f.stage),choose(g){f.chosen=g??new Set,u.rows({page:"current"}).every(function(){xa(this.node(),this.data(),f.chosen)})},
setTheme:m,rows:()=>f.rows,destroy(){p.disconnect(),u.destroy(),a.replaceChildren()}}}function rd(t){for(let e of t.querySelectorAll("nav"))e.removeAttribute("a\
ria-label"),e.setAttribute("role","none")}function sd(){return{columns:Gn,data:[],order:[[wa,"desc"]],pageLength:10,lengthMenu:[10,25,50,100,{label:"all",value:-1}],
language:{search:"",searchPlaceholder:"Filter names",info:"_START_\u2013_END_ of _TOTAL_ names",infoEmpty:"no names",infoFiltered:"(of _MAX_)",lengthMenu:"_MENU\
_ a page",emptyTable:"Nothing is selected here",zeroRecords:"No name matches the filter"},autoWidth:!1,deferRender:!0}}function Ma(t,e){e.stage==="summed"&&(t.clear().
rows.add(e.rows.filter(n=>e.side===null||n.side===e.side)),e.stage="loaded")}function ya(t,e,n){e.stage=n,Ma(t,e),e.stage==="loaded"&&t.draw(),e.stage="shown"}function ad(t,e){
let n=h("div",{class:"sides",role:"group","aria-label":"Where the time went"});for(let[o,r]of od){let s=()=>{t.side=r;for(let a of n.children)a.setAttribute("ar\
ia-pressed",String(a.textContent===o));e()};n.append(h("button",{type:"button","aria-pressed":String(r===null),onclick:s},o))}return n}function xa(t,e,n){let o=e.
ids.some(r=>n.has(r));t.classList.toggle("chosen",o),t.setAttribute("aria-selected",String(o)),t.tabIndex=0}function cd(t,e,n,o){let r=s=>{let a=s.composedPath().
find(id),c=a&&t.row(a).data();if(!c)return;let i=ld(e.chosen,c.ids,s.ctrlKey||s.metaKey||s.shiftKey);o(i.size?i:null)};n.addEventListener("click",r),n.addEventListener(
"keydown",s=>{let[a]=s.composedPath();s.key!=="Enter"&&s.key!==" "||!(a instanceof HTMLTableRowElement)||(s.preventDefault(),r(s))})}function id(t){return t instanceof
HTMLTableRowElement&&t.parentElement?.tagName==="TBODY"}function ld(t,e,n){let o=e.every(a=>t.has(a)),r=o&&t.size===e.length,s=new Set(n?t:[]);for(let a of e)n&&
o?s.delete(a):(n||!r)&&s.add(a);return s}function Kn(t,e,n){let o=e.isWhole?1/0:n.clientWidth;if(o===0||o===e.width)return;e.width=o;let r=n.clientWidth<Ie[0].width;
n.setAttribute("data-view",r?e.isWhole?"whole":"narrow":"wide"),n.toggleAttribute("data-slim",o<Ie[2].width);for(let{width:s,columns:a}of Ie)t.columns(a).visible(
o>=s)}function fd(t,e){let o=h("button",{type:"button",class:"columns","aria-pressed":"false",onclick:()=>{t.isWhole=!t.isWhole,o.setAttribute("aria-pressed",String(
t.isWhole)),e()}},"All columns");return o}function Xn(t,e){return h("h3",{"aria-level":2,class:e?null:"cl-unseen"},t)}async function ka({source:t,parts:e,panels:n,isClosed:o}){let r=await Un(await t.races());
if(o())return;let s=h("div",{class:"cudalens-races"}),{hasProfile:a,hasGraphs:c}=t.facts;e.races.append(Xn("Races",a||c),s),e.races.hidden=!1,n.races=ra(s,r,{onChoose:i=>n.
timeline?.showRace(i.row)})}async function Aa({source:t,parts:e,panels:n,isClosed:o}){let r=await Un(await t.graphs());if(o())return;let s=h("div",{class:"cudal\
ens-graphs"}),{hasProfile:a,hasRaces:c}=t.facts;e.graphs.append(Xn("CUDA graphs",a||c),s),e.graphs.hidden=!1,n.graphs=cs(s,r)}async function jn(t){let{source:e,
parts:n}=t,{memoryMap:o,memoryFirst:r}=e.facts,s=await e.memory();if(t.isClosed())return;let a=h("div",{class:"mm-host"}),c=h("div",{class:"cudalens-memory"},...o?
[z(o)]:[]);n.memoryMap.append(Xn("Memory",!r),a,c),n.memoryMap.hidden=!1,t.panels.memoryMap=await Qs(a,s,{theme:t.theme})}function Ta({source:t,parts:e,store:n},o){
t.facts.findings&&(e.findings.append(z(t.facts.findings)),Vn(e.findings,"tbody tr[data-event]",r=>{let s=o.eventOf(Number(r.dataset.event));return s>=0&&n.set({
event:s,range:null,names:null},"findings"),s>=0}),e.findings.hidden=!1)}function Sa({source:t,parts:e,panels:n}){t.facts.syncs&&(e.syncs.append(z(t.facts.syncs)),
Vn(e.syncs,"tbody tr",(o,r)=>(n.timeline?.showSync(r),!0)),e.syncs.hidden=!1)}function Vn(t,e,n){let o=_(t,e,HTMLElement);o.forEach((r,s)=>{let a=()=>{if(n(r,s))
for(let c of o)c.toggleAttribute("data-chosen",c===r)};r.tabIndex=0,r.addEventListener("click",a),r.addEventListener("keydown",c=>{c.key==="Enter"&&a()})})}function Ea(t,e){
let{parts:n,panels:o,source:r,store:s}=t;return ua(n.table,"Costs",[{key:"table",title:"Operators and kernels",fill:a=>a.append(n.tableHost)},{key:"flame",title:"\
Flame graph",fill(a){o.flame=ss(a,e,{theme:t.theme,baseline:r.facts.baseline,onEvent:c=>s.set({event:c,range:null,names:null},"flame")}),o.flame.update(s.get())},
onShow:()=>o.flame?.shown()},...ud.flatMap(([a,c])=>{let i=r.facts[a];return i?[{key:a,title:c,fill:l=>dd(t,e,l,a,i)}]:[]})])}var ud=[["lines","Lines"],["module\
s","Modules"],["steps","Steps"]];function dd({store:t},e,n,o,r){let s=h("div",{class:`cudalens-${o}`},z(r));for(let a of s.querySelectorAll("details:first-child"))
a.setAttribute("open","");da(s),n.append(s),Vn(s,"tbody tr[data-event]",a=>{let c=e.eventOf(Number(a.dataset.event));return c>=0&&t.set({event:c,range:null,names:null},
o),c>=0})}async function Oa(t,e){let{asset:n,versions:o,sender:r}=t.source,[s,a]=await Promise.all([Wn("datatables.js",o.datatables,n,r),n("datatables.css").then(
Le)]);t.isClosed()||(t.panels.table=va(t.parts.tableHost,e,{DataTable:s,styleSheet:new TextDecoder().decode(a),theme:t.theme,onNames:c=>t.store.set({names:c},"t\
able")}))}function $a({source:t,parts:e,panels:n,theme:o},r){if(!r.metrics.length)return;let s=h("div",{class:"cl-metrics-host"}),a=h("h3",{"aria-level":2},"GPU\
 readings",h("span",{},t.facts.metrics??""));e.metrics.replaceChildren(a,s),e.metrics.hidden=!1;let c=_a(r,r.metrics);n.metrics=Fr(s,r.metrics,r.header.metrics.
gauges,{theme:o,view:c})}async function Ca(t,e){if(t.isClosed())return;let{parts:n,panels:o,source:r,store:s}=t,a=hd(e),c=h("h3",{"aria-level":2},"Memory");if(o.
memoryMap||!a.length){n.memory.hidden=!0;return}let i=h("div",{class:"cl-plot-host"},h("p",{class:"cl-hint"},"Loading the memory curve\u2026"));n.memory.replaceChildren(
c,i),await lo(i,t.cleanups);let l=await Wn("plotly.js",r.versions.plotly,r.asset,r.sender);if(t.isClosed())return;i.replaceChildren();let f=Pr(i,a,{Plotly:l,theme:t.
theme,view:e.n&&o.timeline?.getView()||_a(e,a),onRange:d=>s.set({range:d},"memory")});o.memory=f,await f.ready;let{range:u}=s.get();u&&f.setRange(u)}function hd(t){
return t.memory.map(({label:e,ts:n,allocated:o})=>{let r=[...o.keys()].filter(s=>!Number.isNaN(o[s]));return{label:e,ts:Float64Array.from(r,s=>n[s]),values:Float64Array.
from(r,s=>o[s])}}).filter(e=>e.ts.length)}function _a(t,e){if(t.n)return Qt(dt(t,!0));let n=e.flatMap(({ts:o})=>[o[0],o[o.length-1]]);return[Math.min(...n),Math.
max(...n)+1]}function La(t,e,{range:n,event:o,names:r},s=[]){let a=[`t=${qn(e)}`];n&&a.push(`s=${qn(n)}`),o!==null&&a.push(`e=${t.rowOf(o)}`);for(let c of[...r??[]].slice(0,
20))a.push(`n=${encodeURIComponent(t.header.names[c])}`);for(let{at:c,dur:i,note:l}of s.slice(0,50))a.push(`m=${qn([c,c+i])}:${encodeURIComponent(l)}`);return`#${a.
join("&")}`}function qn([t,e]){return`${Math.round(t)}-${Math.round(e)}`.replace("--","-n").replace(/^-/,"n")}function Pa(t,e){let n=new URLSearchParams(e.replace(
/^#/,"")),o={},r=Ra(n.get("s"));r&&(o.range=r);let s=Number.parseInt(n.get("e")??"",10),a=Number.isInteger(s)?t.eventOf(s):-1;a>=0&&(o.event=a);let i=n.getAll("\
n").map(l=>t.header.names.indexOf(l)).filter(l=>l>=0);return i.length&&(o.names=new Set(i)),{view:Ra(n.get("t")),selection:o,marks:n.getAll("m").slice(0,50).flatMap(
pd)}}function pd(t){let[e,...n]=t.split(":"),[o,r]=Ia(e)??[1,0];return o<=r?[{at:o,dur:r-o,note:n.join(":")}]:[]}function Ra(t){let e=Ia(t);return e&&e[0]<e[1]?
e:null}function Ia(t){let e=/^(n?\d{1,16})-(n?\d{1,16})$/.exec(t??"");if(!e)return null;let[n,o]=[e[1],e[2]].map(r=>Number(r.replace("n","-")));return[n,o]}var md=2e3;function Na(t,e){let{range:n,event:o,names:r}=e;if(o!==null)return gd(t,e);let s=[];if(n){let i=u=>String(BigInt(t.header.t0)+BigInt(u)),[l,f]=[Math.
floor(n[0]),Math.ceil(n[1])];s.push(`((e.ts < ${i(f)}) & (e.ts + e.dur > ${i(l)}) & (e.dur > 0) | (e.dur == 0) & e.ts.between(${i(Math.ceil(n[0]))}, ${i(Math.floor(
n[1]))}))`)}r&&s.push(`e.name.isin(${wd([...r].map(i=>t.header.names[i]))})`);let{first_row:a}=t.header,c=a?`trace.events.iloc[${a}:]`:"trace.events";return s.length?
`${c}[lambda e: ${s.join(" & ")}]`:c}function gd(t,e){let n=X(t,e),o=[];for(let r=0;r<t.n;r++)if(n?.[r]&&o.push(t.rowOf(r)),o.length>md)return null;return`trace\
.events.iloc[[${o.sort((r,s)=>r-s).join(", ")}]]`}function wd(t){let e=n=>JSON.stringify(n).replace(/[\u007f-\uffff]/g,o=>`\\u${o.charCodeAt(0).toString(16).padStart(
4,"0")}`);return`[${t.map(e).join(", ")}]`}function Ha(t,{event:e,names:n},o){let r=n??(e===null?null:new Set([t.name[e]]));if(r===null)return null;let s=e===null?null:t.header.lanes[t.lane[e]].kind,a=[];
for(let l=0;l<t.n;l++){let f=s===null||n!==null||t.header.lanes[t.lane[l]].kind===s;r.has(t.name[l])&&f&&a.push(l)}if(!a.length)return null;a.sort((l,f)=>t.start[l]-
t.start[f]||l-f);let c=e===null?-1:a.indexOf(e),i=c<0?bd(t,a):(c+o+a.length)%a.length;return{event:a[i],ordinal:i+1,count:a.length}}function bd({dur:t},e){return e.
reduce((n,o,r)=>t[o]>t[e[n]]?r:n,0)}function Da(t,e,n,o){let r=n.get(),s=X(e,r);if(t.hidden=s===null,s===null)return;let a=0;for(let i=0;i<e.n;i++)a+=s[i];let c=o.link();t.replaceChildren(h("span",
{class:"cl-bar-count"},`${$(a,"event")} of ${O(e.n)} selected`),...vd(e,r).map(([i,l])=>Md(n,i,l)),...r.range?[h("span",{class:"cl-measure"},yd(e,r.range))]:[],
...xd(e,n),...Er(e,r,o.mark),Fa("Copy pandas","Copy the expression that selects these rows",Na(e,r)),...c===null?[]:[Fa("Copy link","Copy the address of what sh\
ows",c)],h("button",{class:"cl-button cl-clear",type:"button",onclick:()=>n.clear("bar")},"Clear selection"))}function yd(t,e){let{busy:n,idle:o,work:r,calls:s}=po(
t,e),a=`${$(s,"CPU event")}`;if(!t.header.lanes.some(({kind:i,count:l})=>i==="device"&&l))return a;let c=L(100*n/(e[1]-e[0]));return`GPU busy ${x(n)} (${c}), id\
le ${x(o)}; ${$(r,"GPU event")}, ${a}`}function xd(t,e){let{event:n,names:o}=e.get();if(n===null&&o===null)return[];let r=a=>()=>{let c=Ha(t,e.get(),a);c&&e.set(
{event:c.event,names:null,range:null},"bar")},s=(a,c,i)=>h("button",{class:"cl-button",type:"button",title:c,"aria-label":c,onclick:r(i)},a);return n===null?[s(
"Go to the longest","Select the longest event of this name",1)]:[s("\u2039 same name","Previous event of this name",-1),s("same name \u203A","Next event of this\
 name",1)]}function Fa(t,e,n){let s=h("button",{...{class:"cl-button cl-copy",type:"button",title:n===null?"More than 2,000 rows":e},disabled:n===null,"data-tex\
t":n,onclick:async()=>{if(n!==null)try{await navigator.clipboard.writeText(n),s.textContent="Copied"}catch{s.replaceWith(h("code",{class:"cl-copy-text",tabindex:0},
n))}}},t);return s}function vd(t,{range:e,event:n,names:o}){let r=[];if(e){let[s,a]=e;r.push(["range",`${x(s)} \u2013 ${x(a)} (${x(a-s)})`])}if(n!==null&&r.push(
["event",`within ${U(t.header,t.name[n])}`]),o){let[s]=[...o].map(a=>U(t.header,a));r.push(["names",o.size===1?s:`${s} and ${o.size-1} more`])}return r}function Md(t,e,n){
let o=()=>t.set({[e]:null},"bar");return h("span",{class:"cl-chip",title:n},h("span",{},n),h("button",{type:"button","aria-label":`Stop selecting ${n}`,onclick:o},
"\xD7"))}function za(t,e){let n=h("div",{class:"cl-table-host"}),o={verdict:h("p",{class:"cl-verdict"},...kd(e.badge),...Ad(e.verdict)),message:h("div",{class:"cl-messag\
e",role:"alert",hidden:!0}),status:h("p",{class:"cl-hint cl-status"},"Loading the timeline\u2026"),races:B("cl-races","Races"),graphs:B("cl-graphs","CUDA graphs"),
findings:B("cudalens-findings","Findings"),memoryMap:B("cl-memory-map","Memory"),part:h("p",{class:"cl-hint cl-part",hidden:!0}),timeline:h("div",{class:"cl-tim\
eline"}),metrics:B("cl-metrics","Readings of the GPUs"),syncs:B("cudalens-syncs","Waits for the GPU"),bar:h("div",{class:"cl-bar",hidden:!0}),marks:B("cl-marks",
"Marks"),table:B("cl-panel cl-table","Costs"),tableHost:n,details:B("cl-panel cl-details","Details of the selected event"),memory:B("cl-panel cl-memory","Memory\
 curve")};return t.replaceChildren(o.verdict,...Td(e.details),...Sd(e.notes),o.message,o.status,...e.graphsFirst?[o.graphs,o.races]:[o.races,o.graphs],...e.memoryFirst?
[o.memoryMap]:[],o.part,o.timeline,o.bar,o.marks,o.metrics,o.findings,o.syncs,h("div",{class:"cl-columns"},o.table,o.details),o.memory,...e.memoryFirst?[]:[o.memoryMap]),
o}function B(t,e,...n){return h("section",{class:t,role:"group","aria-label":e,hidden:!0},...n)}function kd(t){return t?[h("span",{class:"cl-badge"},t)," "]:[]}
function Ad(t){let e=t.indexOf("; ");return e<0?[h("strong",{},t)]:[h("strong",{},t.slice(0,e)),t.slice(e)]}function Td(t){return t?[h("details",{class:"cl-supp\
ort"},h("summary",{},"more figures"),h("p",{},t))]:[]}function Sd(t=[]){return t.length?[h("ul",{class:"cl-notes"},...t.map(e=>h("li",{},e)))]:[]}var Ed=120,Od=5e4;function Ua(t,e){let n=Jt();t.classList.add("cudalens"),t.dataset.theme=n,t.dataset.state="loading";let o={root:t,source:e,parts:za(t,e.facts),
store:Wr(),panels:{},marks:null,tabs:null,theme:n,data:null,isOpen:!0,isClosed:()=>!o.isOpen,following:void 0,tableMask:void 0,updating:[],cleanups:[uo(s=>Ba(o,
s))]};return{ready:$d(o).catch(s=>o.isOpen&&Ka(o,s)),get data(){return o.data},panels:o.panels,get tabs(){return o.tabs},selection:o.store,showStatus(s){o.parts.
status.textContent=s},setTheme:s=>Ba(o,s),destroy:()=>Bd(o)}}async function $d(t){let{source:e}=t,{hasRaces:n,hasGraphs:o,hasProfile:r,memoryFirst:s,memoryAlone:a}=e.
facts;if(n&&await ut(t,"list of races",()=>ka(t)),o&&await ut(t,"graph tree",()=>Aa(t)),t.isClosed())return;if(s&&await ut(t,"memory map",()=>jn(t)),zd(t),!r||a){
await Ld(t);return}let c=await io(await e.payload());t.isClosed()||(t.data=c,await Cd(t,c))}async function Cd(t,e){let{parts:n,source:o,root:r}=t;o.onData?.(),n.
status.remove(),t.panels.timeline=kr(n.timeline,e,{theme:t.theme,onSelect:s=>t.store.set(s,"timeline"),onTime:s=>Pd(t,[...s])}),_d(t,e),Rd(t),$a(t,e),Ta(t,e),Sa(
t),o.facts.memoryMap&&!o.facts.memoryFirst&&await ut(t,"memory map",()=>jn(t)),t.store.subscribe((s,a)=>Id(t,e,s,a)),t.tabs=Ea(t,e),n.table.hidden=!1,n.memory.hidden=
!1,await Yn(),r.dataset.state="painted",o.onPaint?.(),await Promise.all([ut(t,"table",async()=>{await Oa(t,e),Wa(t,e,t.store.get()),Ga(t,t.store.get())}),ut(t,"\
list of details",()=>e.detailsReady)]),ut(t,"memory curve",()=>Ca(t,e)),t.isOpen&&o.hash&&Fd(t,e,o.hash),t.isOpen&&(r.dataset.state="ready")}function _d({parts:t},{
n:e,header:n}){if(!n.first_row)return;let[o,r]=[n.num_all,e].map(s=>s.toLocaleString("en"));t.part.textContent=`This page has the last ${r} of ${o} events, from\
 ${x(n.begin)} on: the timeline, the table of operators and kernels, the flame graph, the memory curve and the readings show these. Verdict, findings, lines, mo\
dules and steps are of the whole run.`,t.part.hidden=!1}function Rd(t){let{source:e,panels:n,store:o,parts:r}=t;t.marks=Sr(r.marks,e.facts.marks,{onChange(s){n.
timeline?.setMarks(s),e.onMarks?.(s)},onShow({at:s,dur:a}){let c=Math.max(a*.5,500);n.timeline?.zoomTo(s-c,s+a+c),a&&o.set({range:[s,s+a],event:null},"marks")}}),
n.timeline?.setMarks(t.marks.marks)}async function Ld(t){t.parts.status.remove(),t.parts.timeline.hidden=!0,t.source.onData?.(),await Yn(),t.source.onPaint?.(),
t.isOpen&&t.root.dataset.state!=="failed"&&(t.root.dataset.state="ready")}function Yn(){return new Promise(t=>{let e=setTimeout(t,250);requestAnimationFrame(()=>setTimeout(
()=>{clearTimeout(e),t()}))})}async function ut(t,e,n){try{await n()}catch(o){t.isOpen&&Ka(t,o,`The ${e} cannot be shown`)}}function Pd(t,e){t.panels.metrics?.setView(
e),clearTimeout(t.following),t.following=setTimeout(()=>t.isOpen&&t.panels.memory?.setView(e),Ed)}function Id(t,e,n,o){let{timeline:r,memory:s,memoryMap:a,races:c}=t.
panels,{range:i,event:l,names:f}=n;o!=="timeline"&&(r?.setRange(i?.[0]??null,i?.[1]),r?.setNames(f),r?.select(l)),o!=="memory"&&s?.setRange(i),i&&a?.showStretch(
i,e.header.t0),t.parts.details.hidden=l===null,Tr(t.parts.details,e,l);let u=r?.raceOf(l)??null;u!==null&&c?.choose(u),t.source.onSelect?.(Dd(e,n));let d=[()=>X(
e,n),()=>Da(t.parts.bar,e,t.store,{link:()=>Hd(t,e),mark:p=>t.marks?.add(p)}),()=>Wa(t,e,n),()=>t.panels.table?.load(),()=>Ga(t,n),()=>t.panels.flame?.update(n)];
if(e.n<=Od)for(let p of d)p();else Nd(t,d)}async function Nd(t,e){t.updating=e;for(let n of e){if(await Yn(),!t.isOpen||t.updating!==e)return;n()}}function Hd({
source:t,panels:e,store:n,marks:o},r){return!t.address||!e.timeline?null:t.address(La(r,e.timeline.getView(),n.get(),o?.marks))}function Fd({panels:t,store:e,marks:n},o,r){
let{view:s,selection:a,marks:c}=Pa(o,r);c.length&&n&&(n.replace(c),t.timeline?.setMarks(n.marks)),Object.keys(a).length&&e.set(a,"link"),s&&t.timeline?.zoomTo(...s)}
function Wa(t,e,n){let{table:o}=t.panels,r=X(e,{...n,names:null});r!==t.tableMask&&o?.sum(r),o&&(t.tableMask=r)}function Ga({panels:{table:t}},{names:e}){t?.update(),
t?.choose(e)}function Dd(t,{range:e,event:n,names:o}){return{range:e&&[...e],event:n===null?null:t.rowOf(n),names:o&&[...o].map(r=>t.header.names[r])}}function zd(t){
let e=t.root.clientWidth,n=new ResizeObserver(()=>{t.root.clientWidth!==e&&(e=t.root.clientWidth,t.panels.memory?.resize(),t.panels.flame?.resize(),t.panels.metrics?.
resize(),t.panels.memoryMap?.resize())});n.observe(t.root),t.cleanups.push(()=>n.disconnect())}function Ba(t,e){t.theme=e,t.root.dataset.theme=e;for(let n of Object.
values(t.panels))n.setTheme(e)}function Ka({root:t,parts:e,source:n,data:o},r,s="The live view cannot be shown"){let a=r instanceof Zt;if(a&&!o){t.dataset.state=
"failed",n.onGone?.();return}e.status.remove(),e.message.hidden=!1,e.message.append(h("p",{},`${s}: ${r instanceof Error?r.message:r}`)),t.dataset.state="failed",
n.onFail?.(),a||console.error(r)}function Bd(t){t.isOpen=!1,clearTimeout(t.following);for(let e of Object.values(t.panels))e.destroy();for(let e of t.cleanups.splice(
0))e();t.root.replaceChildren()}function Ne(t){let e=document.getElementById(t);if(e===null)throw new Error(`the report has no element ${t}`);return e}function Xa(t){return Ne(t).textContent??
""}async function Xt(t){let e=Xa(t),n=Uint8Array;if(n.fromBase64)return n.fromBase64(e);let o=atob(e),r=new Uint8Array(o.length);for(let s=0;s<o.length;s++)r[s]=
o.charCodeAt(s);return r}function Ud(){let t=Ne("cudalens-app"),e=Ne("cudalens-static"),n=JSON.parse(Xa("cudalens-facts")),o=Ua(t,{...n,payload:()=>Xt("cudalens\
-payload"),races:()=>Xt("cudalens-races"),graphs:()=>Xt("cudalens-graphs"),memory:()=>Xt("cudalens-memory"),asset:r=>Xt(`cudalens-${r}`),hash:location.hash,address:r=>`${location.
href.split("#")[0]}${r}`,onData(){e.hidden=!0,t.hidden=!1},onPaint:()=>{performance.mark("cudalens-painted")},onFail(){t.hidden=!1}});Reflect.set(globalThis,"cu\
dalensReport",o),Wd(Ne("cudalens-theme"))}function Wd(t){t.hidden=!1,t.addEventListener("click",()=>{let e=document.documentElement,n=e.dataset.theme??(matchMedia(
"(prefers-color-scheme: dark)").matches?"dark":"light");e.dataset.theme=n==="dark"?"light":"dark"})}Ud();
