/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function za(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate"));return new Uint8Array(await new Response(e).arrayBuffer())}function Ne(t){
return new Error(`cudalens payload: ${t}. Save the trace again with the same version of cudalens.`)}async function Xt(t){if(t.byteLength<12||String.fromCharCode(
...t.subarray(0,4))!=="CLP1")throw Ne(`found ${t.byteLength} bytes that do not begin with CLP1`);let e=new DataView(t.buffer,t.byteOffset,t.byteLength),n=e.getUint32(
4,!0)===1,o=([a,i])=>{let c=a+i;if(c>t.byteLength)throw Ne(`it ends at byte ${t.byteLength}, ${c} expected`);let l=t.subarray(a,c);return n?za(l):l},r=e.getUint32(
8,!0),s=JSON.parse(new TextDecoder().decode(await o([12,r])));if(s.version!==1)throw Ne(`found version ${s.version}, expected 1`);return{header:s,places:Da(s,12+
r),read:o}}function Da(t,e){let n=new Map,o=e;for(let[r,s]of Object.entries(t.columns)){let a=[];for(let i of"text"in s?[s.text]:s.planes)a.push(i<0?i:[o,i]),i>
0&&(o+=i);n.set(r,a)}return n}async function qn({header:t,places:e,read:n},o){let{n:r,signed:s}=t.columns[o],a=e.get(o)??[],i=await Promise.all(a.map(c=>typeof c==
"number"?-1-c:n(c)));return{n:r,signed:s,planes:i}}async function H(t,e){let{n,signed:o,planes:r}=await qn(t,e);if(r.length>4||o&&r.length===4)return Ba(r,n,o);
let s=new Uint32Array(n);if(r.forEach((i,c)=>{if(typeof i=="number"){if(i)for(let l=0;l<n;l++)s[l]|=i<<8*c}else if(c===0)for(let l=0;l<n;l++)s[l]=i[l];else for(let l=0;l<
n;l++)s[l]|=i[l]<<8*c}),!o)return s;let a=new Int32Array(s.buffer);for(let i=0;i<n;i++)a[i]=s[i]>>>1^-(s[i]&1);return a}function Ba(t,e,n){let o=new Float64Array(
e),r=(s,a)=>{let i=t[s]??0;return typeof i=="number"?i:i[a]};for(let s=0;s<e;s++){let a=(r(0,s)|r(1,s)<<8|r(2,s)<<16|r(3,s)<<24)>>>0,i=(r(4,s)|r(5,s)<<8|r(6,s)<<
16|r(7,s)<<24)>>>0,c=a&1,l=(a>>>1|(i&1)<<31)>>>0;if(!n)o[s]=i*4294967296+a;else{let f=(i>>>1)*4294967296+l;o[s]=c?-f-1:f}}return o}async function Yn(t,e){let{n,
signed:o,planes:r}=await qn(t,e),s=new BigUint64Array(n),a=new Uint8Array(s.buffer);if(r.forEach((i,c)=>{for(let l=0;l<n;l++)a[8*l+c]=typeof i=="number"?i:i[l]}),
o)for(let i=0;i<n;i++)s[i]=s[i]>>1n^BigInt.asUintN(64,-(s[i]&1n));return s}async function Z({places:t,read:e},n){let[o]=t.get(n);return JSON.parse(new TextDecoder().
decode(await e(o)))}async function Zn(t){let{devices:e,actions:n}=t.header.memory,o=["ts","device","action","bytes","allocated_bytes","reserved_bytes","event"],r=await Promise.all(
o.map(d=>H(t,`mem.${d}`))),[s,a,i,c,l,f,u]=r.map(d=>Float64Array.from(d));for(let d=1;d<s.length;d++)s[d]+=s[d-1],u[d]+=u[d-1];for(let d of[l,f])Ua(d,a,e.length);
return e.map((d,p)=>{let m=[...a.keys()].filter(w=>a[w]===p),g=w=>Float64Array.from(m,b=>w[b]);return{label:d,actions:n,ts:g(s),bytes:g(c),allocated:g(l),reserved:g(
f),action:g(i),event:g(u)}})}function Ua(t,e,n){let o=new Float64Array(n);for(let r=0;r<t.length;r++){o[e[r]]+=t[r];let s=o[e[r]];t[r]=s===0?Number.NaN:s-1}}async function Jn(t){
let{devices:e,gauges:n,reasons:o}=t.header.metrics;return Promise.all(e.map((r,s)=>Wa(t,n,{label:r,k:s,reasons:o})))}async function Wa(t,e,{label:n,k:o,reasons:r}){
let s=["ts","slowed_by",...e.map(({column:u})=>u)],[a,i,...c]=await Promise.all(s.map(u=>H(t,`met.${o}.${u}`))),l=Float64Array.from(a);for(let u=1;u<l.length;u++)
l[u]+=l[u-1];let f=e.map(({scale:u},d)=>Float64Array.from(c[d],p=>p===0?Number.NaN:(p-1)/u));return{label:n,ts:l,slowed:i,reasons:r,values:Object.fromEntries(e.
map(({column:u},d)=>[u,f[d]]))}}async function Qn(t,e){for(let{name:n,coding:o}of t.header.details)e.set(n,await(o==="dictionary"?Ga(t,n):Ka(t,n)))}async function Ga(t,e){
let[n,o]=await Promise.all([H(t,`${e}.codes`),Z(t,`${e}.values`)]);return r=>n[r]?o[n[r]-1]:null}async function Ka(t,e){let[n,o]=await Promise.all([H(t,`${e}.kn\
own`),Yn(t,`${e}.steps`)]);for(let s=1;s<o.length;s++)o[s]+=o[s-1];let r=new Uint32Array(n.length);for(let s=0,a=0;s<n.length;s++)r[s]=n[s]?++a:0;return s=>r[s]?
String(BigInt.asIntN(64,o[r[s]-1])):null}var C={instant:1,folded:2,outside:4,launched:8,waiting:16};function to(t,e,n,o,r){let s=new Float64Array(e),a=new Float64Array(e),i=[],c=[],l=()=>{let u=i.pop(),
d=c[i.length+1],p=(d<0?s[u]:d)+r[u];a[u]=p-s[u],c[i.length]=p},f=0;for(let u of t){c[0]=0;for(let d=f+u.count;f<d;f++){for(let g=n[f];g>0;g--)l();let p=i.length,
m=c[p];s[f]=(m<0?s[i[p-1]]:m)+o[f],i.push(f),c[p+1]=-1}for(;i.length;)l()}return{start:s,dur:a}}function eo({n:t,start:e,dur:n,flags:o,header:r}){let s=n.slice(),
a=new Int32Array(t).fill(-1),i=new Uint16Array(t),c=new Int32Array(t+1),l=0;for(let f of r.lanes){let u=l+f.count;if(f.kind==="device"){l=u;continue}let d=0;for(;l<
u;l++){if(o[l]&C.outside)continue;let p=Math.max(e[l]+n[l],e[l]+1);for(;d&&e[c[d-1]]+n[c[d-1]]<p;)d--;d&&(a[l]=c[d-1],s[a[l]]-=n[l],i[l]=d),c[d++]=l}}return{own:s,
parent:a,depth:i}}function no(t,e,n,o,r){let s=new Int32Array(t).fill(-1),a=new Set(o),i=[];for(let c=0;c<t;c++)a.has(n[c])&&i.push(c);for(let c=0,l=0,f=-1;c<t;c++)
e[c]&C.launched&&(f+=r[l++]+1,s[c]=i[f]);return s}function oo({start:t,dur:e,header:n,n:o},r,s){let a=ja(n.lanes),i=new Map,c=new Map;for(let u=0,d=0;u<r.length;u++)d+=r[u],i.set(d,d+s[u]),c.set(d+s[u],d);let l=u=>a.
reduce((d,{from:p,to:m})=>d+Ie(p,m,g=>t[g]>=u)-p,0),f=u=>{let d=Xa(u,t,a,l),p=[];for(let{from:m,to:g}of a)for(let w=Ie(m,g,b=>t[b]>=d);w<g&&t[w]===d;w++)p.push(
w);return p.sort((m,g)=>e[g]-e[m])[u-l(d)]};return{rowOf(u){let d=a.findIndex(({to:m})=>u<m),p=u-a[d].from;return a.forEach(({from:m,to:g},w)=>{if(w===d)return;
p+=Ie(m,g,y=>t[y]>t[u]||t[y]===t[u]&&(w<d?e[y]<e[u]:e[y]<=e[u]))-m}),i.get(p)??p},eventOf:u=>Number.isInteger(u)&&u>=0&&u<o?f(c.get(u)??u):-1}}function ja(t){let e=0;
return t.map(({count:n})=>(e+=n,{from:e-n,to:e}))}function Ie(t,e,n){let[o,r]=[t,e];for(;o<r;){let s=o+r>>1;n(s)?r=s:o=s+1}return o}function Xa(t,e,n,o){let r=n.
filter(({from:i,to:c})=>c>i),s=Math.min(...r.map(({from:i})=>e[i])),a=Math.max(...r.map(({to:i})=>e[i-1]))+1;for(;a-s>1;){let i=Math.floor((s+a)/2);o(i)<=t?s=i:
a=i}return s}function B(t,e){return t.short[e]??t.names[e]}async function so(t){let e=await Xt(t),[n,o]=await Promise.all([Va(e),Z(e,"names")]),r={...e.header,names:o},{n:s,
lanes:a}=r,i=Uint8Array.from(n.flags),c={header:r,n:s,flags:i,...to(a,s,n.closed,n.gap,n.tail)},{own:l,parent:f,depth:u}=eo(c);Za(l,n.self_at,n.self_off);let d=await Zn(
e),p=await Jn(e),m=new Map,g=new Promise(w=>setTimeout(w,0)).then(()=>Qn(e,m));return g.catch(()=>{}),{...c,...qa(r,n),lane:Ya(a,s),self:l,parent:f,depth:u,launch:no(
s,i,n.kind,n.launchers,n.launch),...oo(c,n.row_at,n.row_off),memory:d,metrics:p,detail:w=>Object.fromEntries([...m].map(([b,y])=>[b,y(w)])),detailOf:w=>m.get(w)??
(()=>null),detailsReady:g}}var ro=["closed","gap","tail","kind","kind_name","kind_cat","flags","launch","launchers","self_at","self_off","row_at","row_off"];async function Va(t){
let e=await Promise.all(ro.map(n=>H(t,n)));return Object.fromEntries(ro.map((n,o)=>[n,e[o]]))}function qa({n:t,cats:e},{kind:n,kind_name:o,kind_cat:r}){let s=new Uint32Array(
t),a=e.length>256?new Uint16Array(t):new Uint8Array(t);for(let i=0;i<t;i++)s[i]=o[n[i]],a[i]=r[n[i]];return{name:s,cat:a}}function Ya(t,e){let n=t.length>65536?
new Uint32Array(e):new Uint16Array(e),o=0;return t.forEach(({count:r},s)=>{n.fill(s,o,o+r),o+=r}),n}function Za(t,e,n){let o=0;for(let r=0;r<e.length;r++)o+=e[r],
t[o]+=n[r]}var He="http://www.w3.org/2000/svg";function h(t,e={},...n){let o=document.createElement(t);for(let[r,s]of Object.entries(e))s==null||s===!1||(typeof s=="functi\
on"?o.addEventListener("click",s):o.setAttribute(r,s===!0?"":String(s)));return o.append(...n.filter(r=>r!=null)),o}function F(t,e={},...n){let o=document.createElementNS(
He,t);for(let[r,s]of Object.entries(e))o.setAttribute(r,String(s));return o.append(...n),o}var Ja={"&":"&amp;","<":"&lt;",">":"&gt;",'"':"&quot;","'":"&#39;"};function Vt(t){
return t.replace(/[&<>"']/g,e=>Ja[e])}function I(t,e){let n=t.getContext("2d",e);if(n===null)throw new Error("this browser cannot draw on a canvas");return n}function _(t,e,n){
return[...t.querySelectorAll(e)].filter(o=>o instanceof n)}function qt(){if(matchMedia("print").matches)return"light";let{jpThemeLight:t,vscodeThemeKind:e}=document.body.dataset;if(t!==void 0)return t==="false"?"dark":"\
light";if(e!==void 0)return e.includes("light")?"light":"dark";let n=document.documentElement.dataset.theme;return n==="dark"||n==="light"?n:matchMedia("(prefer\
s-color-scheme: dark)").matches?"dark":"light"}function ao(t){let e=qt(),n=()=>{let a=qt();a!==e&&(e=a,t(a))},o=new MutationObserver(n),r={attributes:!0,attributeFilter:[
"data-jp-theme-light","data-vscode-theme-kind","data-theme"]};o.observe(document.body,r),o.observe(document.documentElement,r);let s=[matchMedia("(prefers-color\
-scheme: dark)"),matchMedia("print")];for(let a of s)a.addEventListener("change",n);return()=>{o.disconnect();for(let a of s)a.removeEventListener("change",n)}}var Qa=new Set(["kernel","gpu_memcpy","gpu_memset"]);function co(t,[e,n]){let{start:o,dur:r,cat:s,lane:a,header:i}=t,c=Uint8Array.from(i.cats,g=>+Qa.has(g)),l=Uint8Array.
from(i.lanes,({kind:g})=>+(g==="device")),f={from:[],to:[]},u={from:[],to:[]},[d,p]=[0,0];for(let g=0;g<t.n;g++){g>0&&a[g]!==a[g-1]&&(f=io(f,u),u={from:[],to:[]});
let w=o[g]+r[g];o[g]>=n||w<=e||(l[a[g]]?c[s[g]]&&(d+=1,Fe(u,Math.max(o[g],e),Math.min(w,n))):p+=1)}f=io(f,u);let m=f.from.reduce((g,w,b)=>g+f.to[b]-w,0);return{
busy:m,idle:n-e-m,work:d,calls:p}}function Fe(t,e,n){let o=t.to.length-1;o>=0&&e<=t.to[o]?t.to[o]=Math.max(t.to[o],n):(t.from.push(e),t.to.push(n))}function io(t,e){
if(!t.from.length||!e.from.length)return t.from.length?t:e;let n={from:[],to:[]};for(let o=0,r=0;o<t.from.length||r<e.from.length;)r>=e.from.length||t.from[o]<=
e.from[r]?Fe(n,t.from[o],t.to[o++]):Fe(n,e.from[r],e.to[r++]);return n}function lo({start:t,dur:e},n,o){let[r,s]=t[n]<=t[o]?[n,o]:[o,n],a=t[r]+e[r];return a<t[s]?
[a,t[s]]:[t[r],Math.max(t[s],t[r]+1)]}function fo(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var ti=[[1e9,"s"],[1e6,"ms"],[1e3,"µs"]],ei=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"KiB"]];
function v(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${v(-t)}`;if(t>=1195e8){let e=Math.round(t/1e9);return`${Math.floor(e/60)} min ${e%60} s`}for(let[
e,n]of ti)if(t>=.9995*e)return`${fo(t/e)} ${n}`;return t>=.9995||t===0?`${t.toFixed(0)} ns`:`${Number(t.toPrecision(2))} ns`}function x(t){if(t==null||Number.isNaN(
t))return"-";if(t<0)return`-${x(-t)}`;for(let[e,n]of ei)if(t>=.9995*e)return`${fo(t/e)} ${n}`;return`${t.toFixed(0)} B`}function R(t){return t==null||Number.isNaN(
t)?"-":t>0&&t<.1?"<0.1 %":t<9.95?`${t.toFixed(1)} %`:`${t.toFixed(0)} %`}function E(t){return t.toLocaleString("en-US")}function O(t,e){return`${E(t)} ${e}${t===
1?"":"s"}`}var ni=`
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
`,uo=Symbol.for("cudalens.timeline.style");function ho(t){let e=t.getRootNode(),n=e instanceof ShadowRoot?e:document;if(n[uo])return;let o=new CSSStyleSheet;o.replaceSync(
ni),n[uo]=o,n.adoptedStyleSheets=[...n.adoptedStyleSheets,o]}function po({style:t},e){let{bg:n,text:o,muted:r,line:s,lineSoft:a,accent:i,tip:c,field:l}=e;for(let[
f,u]of Object.entries({bg:n,text:o,muted:r,line:s,soft:a,accent:i,tip:c,field:l}))t.setProperty(`--timeline-${f}`,u);t.setProperty("--timeline-tip-text",e.tipText),
t.setProperty("color-scheme",n<"#8"?"dark":"light")}var oi="W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, L follows a \
launch arrow. F fits, slash searches, C folds a lane, P pins it, Escape goes back.",ri=[["wheel","zoom, after a click"],["Ctrl+wheel","zoom"],["drag","pan"],["S\
hift+drag","select time"],["W A S D","move"],["F","fit"],["/","search"],["Enter","step through events"]];function mo(t){ho(t);let e=si(),n=h("canvas",{class:"cl\
tl-canvas",tabindex:"0",role:"application","aria-roledescription":"timeline","aria-label":"Timeline of the trace"}),o=h("div",{class:"cltl-stage"},n),r=h("div",
{class:"cltl-frame"},o),s=h("div",{class:"cltl-tip",hidden:!0,"aria-hidden":"true"}),a=h("div",{class:"cltl-spoken","aria-live":"polite"}),i=h("div",{class:"clt\
l-spoken",id:`cltl-${Math.random().toString(36).slice(2)}`},oi);n.setAttribute("aria-describedby",i.id);let c=h("div",{class:"cltl-lanes",hidden:!0}),f=h("div",
{class:"cltl",role:"group","aria-label":"Stream timeline"},e.tools,c,r,ai(),s,a,i);for(let u of f.querySelectorAll("canvas, input, button"))u.setAttribute("data\
-lm-suppress-shortcuts","true");return t.append(f),{...e,canvas:n,stage:o,frame:r,lanes:c,tip:s,spoken:a,host:f}}function si(){let t=(d,p,m)=>h("button",{type:"\
button","aria-label":d,title:m},p),e=(...d)=>h("span",{class:"cltl-group"},...d),n=h("input",{class:"cltl-search",type:"search",placeholder:"Search names  ( / )",
"aria-label":"Search event names",autocomplete:"off",spellcheck:"false"}),o=h("span",{class:"cltl-matches",role:"status"}),r=t("Previous match","‹","Previous \
match (Shift+Enter)"),s=t("Next match","›","Next match (Enter)"),a=t("Zoom in","+","Zoom in (W)"),i=t("Zoom out","−","Zoom out (S)"),c=t("Fit the whole trac\
e","Fit","Show the whole trace (F)"),l=t("Lanes","Lanes","Pin, move, fold and filter lanes");l.setAttribute("aria-expanded","false");let f=h("ul",{class:"cltl-l\
egend","aria-label":"Colours"}),u=h("div",{class:"cltl-tools",role:"toolbar","aria-label":"Timeline"},e(n,r,s,o),e(i,a,c,l),f);return{search:n,matches:o,previous:r,
next:s,zoomIn:a,zoomOut:i,fit:c,lanesButton:l,legend:f,tools:u}}function ai(){let t=ri.flatMap(([e,n])=>[h("span",{},h("kbd",{},e),` ${n}`)," "]);return h("div",
{class:"cltl-hint","aria-hidden":"true"},...t)}function go(t,e){t.legend.replaceChildren(...e.map(([n,o])=>{let r=h("i",{"aria-hidden":"true"});return r.style.background=
o,h("li",{},r,n)}))}function wo(t,e,n,o){let[r,...s]=e;t.tip.replaceChildren(h("b",{},r),...s.map(l=>h("div",{},l))),t.tip.hidden=!1;let{offsetWidth:a,offsetHeight:i}=t.
tip,c=t.host.clientWidth;t.tip.style.left=`${Math.max(0,n+14+a>c?n-a-10:n+14)}px`,t.tip.style.top=`${o+18+i>t.host.clientHeight?o-i-8:o+18}px`}var S=18,$t=24,$=26,M=$t+$,ze=4,ii=20;function dt(t,e=!1){let n=1/0,o=-1/0,r=t.header.cats.map(s=>s==="Trace"||s==="overhead");for(let s=0;s<t.n;s++){if(e&&(r[t.
cat[s]]||t.flags[s]&C.instant))continue;t.start[s]<n&&(n=t.start[s]);let a=t.start[s]+t.dur[s];a>o&&(o=a)}return n===1/0?e?dt(t):[0,1e3]:[n,Math.max(o,n+1)]}function De([
t,e],n){let o=(n[1]-n[0])*1.04,r=Math.min(Math.max(e-t,Math.min(ii,o)),o),s=(t+e)/2,a=n[0]-r*.9,i=n[1]-r*.1,c=r>=o?(n[0]+n[1]-o)/2:Math.min(Math.max(s-r/2,a),i);
return[c,c+r]}function Yt(t){let e=(t[1]-t[0])*.02;return[t[0]-e,t[1]+e]}function bo(t,e,n,o=110){let r=(e-t)*o/Math.max(n,1),s=10**Math.floor(Math.log10(r)),a=Math.
max(1,([1,2,5,10].find(c=>c*s>=r*.999)??10)*s),i=[];for(let c=Math.ceil(t/a);c*a<=e&&i.length<200;c++)i.push({t:c*a,text:li(c*a,a)});return{ticks:i,step:a}}var ci=[
[1e9,"s"],[1e6,"ms"],[1e3,"µs"]];function li(t,e){let[n,o]=ci.find(([s])=>Math.abs(t)>=s)??[1,"ns"],r=Math.max(0,Math.ceil(Math.log10(n/e)-1e-9));return t===0?
"0":`${(t/n).toFixed(r)} ${o}`}function Zt(t,e,n,o=0){let r=new Float64Array(t.length),s=new Float64Array(t.length),a=new Uint16Array(t.length),i=0;for(let c of n)
a[c]=e.has(c)?1:t[c],r[c]=i,i+=a[c]*S+2*ze,s[c]=i;return{order:n,tops:r,ends:s,shown:a,pinned:o?s[n[o-1]]:0,total:i}}function nt(t,e){let{order:n,tops:o}=t;if(e<
0||e>=t.total)return-1;let r=0,s=n.length-1;for(;r<s;){let a=r+s+1>>1;o[n[a]]<=e?r=a:s=a-1}return n[r]}function Jt(t,e,n){return t.tops[e]+ze+n*S}function yo(t,e){
let n=nt(t,e);if(n<0)return null;let o=Math.floor((e-t.tops[n]-ze)/S);return o>=0&&o<t.shown[n]?{lane:n,row:o}:null}var fi=.6;function Qt({size:t,layout:e}){return e.pinned<=fi*(t.height-M)?e.pinned:0}function te(t,e){return e-M<Qt(t)?e-M:e-M+t.scroll}function J(t){let{size:e,
view:n,layout:o}=t,r=e.width-e.gutter,s=Math.max(1,Math.round(r*e.ratio)),a=(n[1]-n[0])/s,i=Math.round(n[0]/a)*a,c=s/e.ratio/(n[1]-n[0]),l=Qt(t),f=p=>e.gutter+(p-
i)*c,u=(p,m)=>M+m-(o.tops[p]<l?0:t.scroll),d=(p,m)=>u(p,Jt(o,p,m));return{width:r,pixels:s,w:a,t0:i,t1:i+s*a,scale:c,parts:ui(t,l),x:f,y:d,down:u}}function ui({
layout:t,size:e,scroll:n},o){let{order:r,tops:s}=t,a=Math.min(n,Math.max(0,t.total-1))+o,i=n+e.height-M,c=Math.max(0,r.indexOf(nt(t,a))),l=nt(t,i),u={lanes:r.slice(
c,l<0?r.length:r.indexOf(l)+1).filter(p=>s[p]>=o),top:M+o,bottom:e.height};if(!o)return[u];let d={lanes:r.filter(p=>s[p]<o),top:M,bottom:M+o};return[u,d]}function ht(t,e,n){
let o=t.data.lane[n],r=t.rows.row[n];return r>=t.layout.shown[o]?null:{x:e.x(t.data.start[n]),y:Math.round(e.y(o,r)),width:Math.max(1,t.data.dur[n]*e.scale)}}var xo={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#\
d55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_\
runtime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var z=xo;function ee(t,e){let{groups:n}=z,o=n.findIndex(s=>s.cats.includes(t));return o<0?n.length-1:n[o].key==="kernel"&&z.comm_prefixes.some(s=>e.startsWith(s))?
n.findIndex(s=>s.key==="comm"):o}function mt(t){let e=2166136261;for(let n=0;n<t.length;n++)e=Math.imul(e^t.charCodeAt(n),16777619);return e>>>0}function pt(t){
let[e,n,o]=[1,3,5].map(r=>Number.parseInt(t.slice(r,r+2),16));return[e,n,o]}function hi(t,e,n){let o=pt(e),[r,s,a]=pt(t).map((i,c)=>Math.floor(i+(o[c]-i)*n+.5));
return[r,s,a]}function pi(t){let[e,n,o]=t.map(r=>r/255).map(r=>r<=.04045?r/12.92:((r+.055)/1.055)**2.4);return .2126*e+.7152*n+.0722*o}var U=z.light.shades.length;
function Ct(t){let e=z[t].shades,n=z.groups.flatMap(o=>e.map(([r,s])=>hi(o.color,r,s)));return{pixels:Uint32Array.from(n,([o,r,s])=>(s<<16|r<<8|o)>>>0),css:n.map(
o=>`rgb(${o.join(",")})`),ink:n.map(o=>(pi(o)+.05)**2>.05*1.05?"#000000":"#ffffff")}}var W=16,ne=512,_t=65535,mi=.02,vo=88,gi=255<<24>>>0,wi=150<<24>>>0;function ko(t){let{start:e,dur:n,n:o,header:r}=t,s=new Uint16Array(o),a=[],i=new Float64Array(
ne),c=new Int32Array(ne),l=new Map,f=0;for(let u of r.lanes){let d=-1,p=0;i.fill(-1/0);let m=f+u.enclosing;for(let g=f+u.count;f<g;f++){if(f<m&&f>m-u.enclosing){
s[f]=_t;continue}let w=e[f],b=w+n[f];for(;d>=0&&i[d]<=w;)d--;let y=d;for(;y>=0&&!(i[y]>w&&i[y]>=b);)y--;for(y++;y<ne&&i[y]>w;){if(e[c[y]]<w&&i[y]-w<mi*(b-w)){l.
set(c[y],w);break}y++}if(y>=ne){s[f]=_t;continue}s[f]=y,i[y]=b,c[y]=f,b>w&&y>d&&(d=y),y>=p&&(p=y+1)}a.push(Math.max(p,1))}return{row:s,heights:a,ends:l}}function oe(t,e,n){
let o=n;for(;e.row[o]===_t&&o>0&&t.lane[o-1]===t.lane[n];)o--;return e.row[n]===_t&&e.row[o]===0?o:n}function Ao(t){let{names:e,cats:n}=t.header,o=new Map,r=new Uint8Array(
t.n),s=new Int8Array(e.length).fill(-1),a=-1,i=0;for(let c=0;c<t.n;c++){let l=t.name[c]*65536+t.cat[c];if(l!==a){let f=o.get(l);if(f===void 0){let u=e[t.name[c]];
s[t.name[c]]<0&&(s[t.name[c]]=mt(u)%U),f=ee(n[t.cat[c]],u)*U+s[t.name[c]],o.set(l,f)}a=l,i=f}r[c]=i}return r}function re(t,e,n,o=null){let{start:r,dur:s,lane:a,
n:i}=t,c=g=>e.row[g]===_t||o!==null&&!o[g],l=Mo(e.heights),f=new Uint32Array(l[e.heights.length]);for(let g=0;g<i;g++)c(g)||f[l[a[g]]+e.row[g]]++;let u=Mo(f),d=u[u.
length-1],p={first:u,laneRow:l,at:new Uint32Array(d),s:new Float64Array(d),e:new Float64Array(d),sum:new Float64Array(d+1),tone:new Uint8Array(d)},m=u.slice();for(let g=0;g<
i;g++){if(c(g))continue;let w=m[l[a[g]]+e.row[g]]++;p.at[w]=g,p.s[w]=r[g],p.e[w]=r[g]+s[g],p.tone[w]=n[g]}for(let[g,w]of e.ends)c(g)||(p.e[bi(p,l[a[g]]+e.row[g],
g)]=w);for(let g=0;g<d;g++)p.sum[g+1]=p.sum[g]+p.e[g]-p.s[g];return{...p,maxima:yi(p.s,p.e)}}function bi({first:t,at:e},n,o){let r=t[n],s=t[n+1];for(;r<s;){let a=r+
s>>1;e[a]<o?r=a+1:s=a}return r}function Mo(t){let e=new Uint32Array(t.length+1);for(let n=0;n<t.length;n++)e[n+1]=e[n]+t[n];return e}function yi(t,e){let n=[],o=null;
for(let r=t.length;r>W;){let s=Math.ceil(r/W),a=new Uint32Array(s);for(let i=0;i<s;i++){let c=-1,l=-1;for(let f=i*W;f<Math.min(r,(i+1)*W);f++){let u=o===null?f:
o[f];e[u]-t[u]>l&&(l=e[u]-t[u],c=u)}a[i]=c}n.push(a),o=a,r=s}return n}function To(t,e,n){let{s:o,e:r,maxima:s}=t,a=e,i=r[e]-o[e],c=u=>{let d=r[u]-o[u];(d>i||d===
i&&u<a)&&(i=d,a=u)},l=e,f=n;for(let u=-1;l<f;u++){let d=u<0?null:s[u],p=u+1>=s.length||f-l<=W;for(;l<f&&(p||l%W);)c(d===null?l++:d[l++]);for(;f>l&&f%W;)c(d===null?
--f:d[--f]);l/=W,f/=W}return a}function se(t,e,n,o){let r=1,s=e;for(;s+r<n&&t[s+r]<o;)s+=r,r*=2;let a=Math.min(n,s+r);for(;s<a;){let i=s+a>>1;t[i]<o?s=i+1:a=i}return s}
function G(t,e,n){let o=t.first[e],r=se(t.s,o,t.first[e+1],n);return r>o&&t.e[r-1]>n?r-1:r}function So(t,e,{t0:n,w:o,out:r,base:s,width:a,minWidth:i},c,l){let{s:f,
e:u,sum:d,tone:p}=t,m=t.first[e+1],g=1/o,w=n+a*o,b=G(t,e,n),y=0;for(;b<m&&f[b]<w&&y<a;){let k=(f[b]-n)*g;k>y&&(y=Math.floor(k));let P=n+y*o;if(u[b]<=P&&f[b]<P){
b++;continue}if(f[b]<=P&&u[b]>=P+o){let Kt=(u[b]-n)*g,jt=Math.min(a,Math.max(y+1,Math.floor(Kt)));r.fill((c[p[b]]|gi)>>>0,s+y,s+jt),Kt-k>=i&&l(b,k,Kt),Kt-k>=4&&
jt<a&&(r[s+jt-1]=(c[p[b]]|wi)>>>0),y=jt,u[b]<=n+y*o&&b++;continue}let L=P+o,N=se(f,b,m,L);if(N===b){y++;continue}let Pe=Math.max(0,P-f[b])+Math.max(0,u[N-1]-L),
Vn=(d[N]-d[b]-Pe)*g,Ha=N-b===1?b:To(t,b,N),Fa=vo+(255-vo)*(Vn>1?1:Vn);r[s+y]=(c[p[Ha]]|Math.round(Fa)<<24)>>>0,y++,b=u[N-1]>L?N-1:N}}function Eo(t,e,[n,o],r){let{
s,e:a,sum:i}=t,c=(o-n)/r.length,l=t.first[e+1],f=G(t,e,n);for(let u=0;u<r.length&&f<l;u++){let d=n+u*c,p=se(s,f,l,d+c);if(p===f&&!(s[f]<d+c))continue;let m=Math.
max(0,d-s[f])+Math.max(0,a[p-1]-d-c);r[u]+=Math.max(0,i[p]-i[f]-m)/c,f=p>f&&a[p-1]>d+c?p-1:p}}function ae(t,e,n,o){let{s:r,e:s,first:a}=t,i=G(t,e,n);if(i<a[e+1]&&
r[i]<=n&&s[i]>n&&s[i]-r[i]>=2*o)return t.at[i];let c=G(t,e,n-o),l=se(r,c,a[e+1],n+o),f=l<a[e+1]&&r[l]<=n+o?l+1:l;return c<f?t.at[To(t,c,f)]:-1}var $o=["device","host"],xi=400;function vi(t,e){let n={device:new Float32Array(e),host:new Float32Array(e)},o={device:0,host:0};t.data.header.lanes.forEach((r,s)=>{
for(let a=t.index.laneRow[s];a<Math.min(t.index.laneRow[s+1],xi);a++)Eo(t.index,a,t.whole,n[r.kind])});for(let r of $o){for(let s of n[r])s>o[r]&&(o[r]=s);if(o[r]>
0)for(let s=0;s<e;s++)n[r][s]/=o[r]}return{shares:n,most:o}}function Mi(t,e){let n=document.createElement("canvas"),o=Math.max(1,Math.round(e*t.size.ratio));n.width=
o,n.height=Math.round(($-6)*t.size.ratio);let r=I(n),{shares:s,most:a}=vi(t,o),i=$o.filter(l=>a[l]>0),c=n.height/Math.max(i.length,1);return i.forEach((l,f)=>{r.
fillStyle=t.tones.css[l==="device"?0:t.hostTone];for(let u=0;u<o;u++){let d=s[l][u]*(c-1);d>0&&r.fillRect(u,(f+1)*c-Math.max(1,d),1,Math.max(1,d))}}),n}function Oo(t,e){
let{gutter:n,width:o}=t.size;return n+(e-t.whole[0])/(t.whole[1]-t.whole[0])*(o-n)}function Be(t,e){let{gutter:n,width:o}=t.size;return t.whole[0]+(e-n)/(o-n)*(t.
whole[1]-t.whole[0])}function Co(t,e,{width:n,t0:o,t1:r}){let{gutter:s,ratio:a}=e.size,i=`${n} ${a} ${e.mode}`;e.overview?.key!==i&&(e.overview={key:i,picture:Mi(
e,n)}),t.fillStyle=e.colors.gutter,t.fillRect(s,0,n,$),t.drawImage(e.overview.picture,s,3,n,$-6);let c=Math.max(s,Oo(e,o)),l=Math.min(s+n,Oo(e,r));t.fillStyle=e.
colors.bg,t.globalAlpha=.65,t.fillRect(s,0,c-s,$),t.fillRect(l,0,s+n-l,$),t.globalAlpha=1,t.strokeStyle=e.colors.muted,t.lineWidth=1;let f=Math.max(3,l-c);t.strokeRect(
Math.min(c,s+n-f)+.5,.5,f-1,$-1)}var Ue=80;function Lo(t){let e=new Uint32Array(t.n+1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&e[t.launch[r]+1]++;for(let r=0;r<t.n;r++)e[r+1]+=e[r];let n=new Uint32Array(
e[t.n]),o=e.slice(0,-1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&(n[o[t.launch[r]]++]=r);return{first:e,work:n}}function We(t,e,n=Ue){if(t.data.launch[e]>=0)return[
e];let{first:o,work:r}=t.launches;return[...r.subarray(o[e],Math.min(o[e+1],o[e]+n))]}function Ro(t,e,n){let o=new Set;for(let r of[e.hover,e.focused,e.selected])
if(r!==null)for(let s of We(e,r))o.add(s);t.globalAlpha=.45;for(let r of ki(e,n)){let s=e.data.start[e.data.launch[r]];!o.has(r)&&s>=n.t0&&s<=n.t1&&_o(t,e,n,r,1)}
t.globalAlpha=1;for(let r of o)_o(t,e,n,r,1.8)}function ki(t,e){let{index:n,data:o}=t,r=[],s=0;for(let a of e.parts.flatMap(({lanes:i})=>i))if(o.header.lanes[a].
kind==="device")for(let i=0;i<t.layout.shown[a];i++){let c=n.laneRow[a]+i;for(let l=G(n,c,e.t0);l<n.first[c+1]&&n.s[l]<e.t1;l++){if(s++>4*Ue)return[];if(o.launch[n.
at[l]]>=0&&r.push(n.at[l])>Ue)return[]}}return r}function _o(t,e,n,o,r){let s=ht(e,n,e.data.launch[o])??Ai(e,n,e.data.launch[o]),a=ht(e,n,o);if(s===null||a===null)
return;let i=a.y>s.y,c=s.x+Math.min(s.width/2,12),l=s.y+(i?S-1:0),f=a.y+(i?0:S-1),u=Math.min(60,Math.abs(f-l)/2+8)*(i?1:-1);t.strokeStyle=e.colors.arrow,t.fillStyle=
e.colors.arrow,t.lineWidth=r,t.beginPath(),t.moveTo(c,l),t.bezierCurveTo(c,l+u,a.x,f-u,a.x,f),t.stroke();let d=i?-6:6;t.beginPath(),t.moveTo(a.x,f),t.lineTo(a.x-
3.5,f+d),t.lineTo(a.x+3.5,f+d),t.fill()}function Ai(t,e,n){let o=n;for(;o>=0&&t.rows.row[o]>=t.layout.shown[t.data.lane[o]];)o=t.data.parent[o];let r=o<0?null:ht(
t,e,o);return r&&{x:e.x(t.data.start[n]),y:r.y,width:1}}function Po(t,e){let n=document.createElement("canvas");return{canvas:t,context:I(t,{alpha:!1}),stripCanvas:n,stripContext:I(n),strip:null,labels:new Array(e.header.
names.length)}}function No(t,e,n){let{stripCanvas:o,stripContext:r}=t;if(t.strip===null||o.width<e||o.height<n){o.width=e,o.height=Math.max(n,o.height);let s=r.
createImageData(e,o.height);t.strip={image:s,pixels:new Uint32Array(s.data.buffer)}}return t.strip}var Ge="#e5484d";function Io(t){let e=[0];for(let n of t.header.lanes)e.push(e[e.length-1]+n.count);return(t.header.races??[]).map(n=>({...n,event:Ti(t,n,e)}))}
function Ti(t,{lane:e,at:n,dur:o},r){if(e<0)return-1;for(let s=r[e];s<r[e+1];s++)if(t.start[s]===n&&t.dur[s]===o)return s;return-1}function Ho(t,e,{x:n,t0:o,t1:r}){
t.fillStyle=Ge;for(let{at:s}of e.races){if(s<o||s>r)continue;let a=Math.round(n(s));t.fillRect(a,M-14,1.5,14),t.beginPath(),t.moveTo(a,M-14),t.lineTo(a+9,M-10.5),
t.lineTo(a,M-7),t.fill()}}var Ke="#d55e00",Fo=8;function zo(t){let e=t.header.syncs??[];if(!e.length)return[];let n=[0];for(let r of t.header.lanes)n.push(n[n.length-1]+r.count);let o=new Map(
e.map(r=>[`${r.lane} ${r.at} ${r.dur}`,-1]));for(let r of new Set(e.map(s=>s.lane)))for(let s=n[r];s<n[r+1];s++){let a=`${r} ${t.start[s]} ${t.dur[s]}`;o.has(a)&&
o.set(a,s)}return e.map(r=>({...r,event:o.get(`${r.lane} ${r.at} ${r.dur}`)??-1}))}function Do(t,e,{x:n,t0:o,t1:r}){t.fillStyle=Ke;for(let{at:s,dur:a}of e.syncs){
if(s+a<o||s>r)continue;let i=Math.round(n(s));t.fillRect(i,M-Fo/2,Math.max(1.5,n(s+a)-i),Fo/2)}}var Si=4e3;function Bo(t,e,n){let o=ko(e),r=Ao(e),s=Yt(dt(e,!0)),a=re(e,o,r),i=mo(t),c=new Set(e.header.lanes.flatMap((f,u)=>f.is_idle?[u]:[])),l=e.header.lanes.
map((f,u)=>u);return{data:e,options:n,dom:i,painter:Po(i.canvas,e),rows:o,tone:r,hostTone:Ei(e,a),whole:s,extent:dt(e),view:[...s],index:a,launches:Lo(e),collapsed:c,
order:l,pinned:new Set,filters:new Map,lanesPanel:null,layout:Zt(o.heights,c,l),steps:Oi(e),races:Io(e),syncs:zo(e),chosen:null,names:null,search:null,range:null,
selected:null,focused:null,hover:null,hasFocus:!1,focusLane:-1,isArmed:!1,drag:null,held:new Set,pointerX:null,scroll:0,size:{width:0,height:0,gutter:150,ratio:1},
...je(n.theme??"light"),overview:null,lowerNames:null,script:[],pending:0,beforeFrame:null,isGone:!1,isReleased:!1,cleanups:[]}}function je(t){let e=z[t],n=Ct(t),
o=Number.parseInt(e.dim.slice(1),16),r=((o&255)<<16|o&65280|o>>16)>>>0;return{mode:t,colors:e,tones:n,dimPixels:new Uint32Array(n.pixels.length).fill(r)}}function A(t,e,n,o,r){
e.addEventListener(n,o,r),t.cleanups.push(()=>e.removeEventListener(n,o,r))}function Ei({header:t},{first:e,laneRow:n,tone:o}){let r=t.lanes.findIndex(({kind:s,
count:a})=>s==="host"&&a>0);return r<0?0:o[e[n[r]]]}function Oi(t){let e=new Set(t.header.step_names),n=[];if(!e.size)return n;for(let o=0;o<t.n;o++)e.has(t.name[o])&&
t.header.lanes[t.lane[o]].kind==="host"&&n.push({t0:t.start[o],t1:t.start[o]+t.dur[o]});return n.length>Si?[]:n.sort((o,r)=>o.t0-r.t0)}var $i=4,Ci={gutter:"pointer",ruler:"col-resize",overview:"ew-resize"};function _i(t,e){let n=t.getBoundingClientRect();return[e.clientX-n.left,e.clientY-n.top]}
function ie(t,e,n){return e<t.size.gutter?n<M?"corner":"gutter":n<$?"overview":n<M?"ruler":"plot"}function Wo(t,e){let{canvas:n}=t.dom,o=r=>_i(n,r);A(t,n,"point\
erdown",r=>{if(r.button!==0)return;let[s,a]=o(r),i=ie(t,s,a);t.isArmed=!0,n.focus({preventScroll:!0}),n.setPointerCapture(r.pointerId);let c=i==="ruler"||i==="p\
lot"&&r.shiftKey?"range":i;t.drag={kind:c,x:s,y:a,view:[...t.view],scroll:t.scroll,moved:!1,from:e.timeAt(s)},c==="overview"&&e.centre(Be(t,s))}),A(t,n,"pointer\
move",r=>{let[s,a]=o(r);if(t.drag===null){let i=ie(t,s,a);n.style.cursor=Ci[i]??"default",i==="plot"?e.hover(s,a):e.leave()}else Li(t,e,s,a)}),A(t,n,"pointerup",
r=>{let[s,a]=o(r),{drag:i}=t;t.drag=null,n.style.cursor="default",i!==null&&(i.kind==="range"&&i.moved?e.finishRange():i.kind==="gutter"?i.moved?e.dropLane(i.y,
a):e.toggleLane(a):!i.moved&&i.kind==="range"&&!e.measureTo(s,a)?e.clearRange():!i.moved&&i.kind==="plot"&&e.click(s,a))}),A(t,n,"pointercancel",()=>{t.drag=null}),
A(t,n,"pointerleave",()=>{t.isArmed=t.drag!==null,e.leave()}),A(t,n,"dblclick",r=>{let[s,a]=o(r);ie(t,s,a)==="plot"?e.zoomToEventAt(s,a):ie(t,s,a)!=="gutter"&&e.
fit()}),A(t,n,"wheel",r=>Ri(t,e,r,o(r)),{passive:!1})}function Li(t,e,n,o){let{drag:r}=t;if(r!==null&&!(!r.moved&&Math.hypot(n-r.x,o-r.y)<$i))if(r.moved=!0,r.kind===
"plot"){t.dom.canvas.style.cursor="grabbing";let s=(r.view[1]-r.view[0])/(t.size.width-t.size.gutter),a=(n-r.x)*s;e.show([r.view[0]-a,r.view[1]-a]),t.dom.frame.
scrollTop=r.scroll-(o-r.y)}else r.kind==="range"?e.dragRange(r.from,e.timeAt(Math.min(Math.max(n,t.size.gutter),t.size.width))):r.kind==="overview"&&e.centre(Be(
t,n))}function Ri(t,e,n,[o]){let r=n.deltaMode===1?16:n.deltaMode===2?400:1,[s,a]=[n.deltaX*r,n.deltaY*r],i=n.ctrlKey||n.metaKey;if(!i&&!t.isArmed)return;n.preventDefault();
let c=n.shiftKey&&s===0?a:s;!i&&(n.shiftKey||Math.abs(s)>Math.abs(a))?e.pan(c):e.zoom(Math.exp(Math.min(Math.max(a,-200),200)*(i&&Math.abs(a)<30?.01:.0022)),o)}
var Xe={w:[1,0],s:[-1,0],a:[0,-1],d:[0,1]},Uo={ArrowLeft:"left",ArrowRight:"right",ArrowUp:"up",ArrowDown:"down"};function Go(t,e){let{canvas:n,search:o}=t.dom;
A(t,n,"keydown",r=>{r.ctrlKey||r.metaKey||r.altKey||Pi(t,e,r)&&(r.preventDefault(),r.stopPropagation())}),A(t,n,"keyup",r=>t.held.delete(r.key.toLowerCase())),A(
t,n,"focus",()=>e.focusChanged(!0)),A(t,n,"blur",()=>{t.held.clear(),t.isArmed=!1,e.focusChanged(!1)}),A(t,o,"input",()=>e.search(o.value)),A(t,o,"keydown",r=>{
if(r.stopPropagation(),r.key==="Enter")e.nextMatch(r.shiftKey?-1:1);else if(r.key==="Escape")o.value="",e.search(""),n.focus({preventScroll:!0});else return;r.preventDefault()})}
function Pi(t,e,n){let o=n.key.length===1?n.key.toLowerCase():n.key;if(o in Xe)e.hold(o);else if(o in Uo)e.arrow(Uo[o]);else if(o==="Enter"||o===" ")e.enter();else if(o===
"f")e.fit();else if(o==="z")e.zoomToFocused();else if(o==="l")e.follow();else if(o==="c")e.toggleFocusLane();else if(o==="p")e.pinFocusLane();else if(o==="/")t.
dom.search.select();else if(o==="n")e.nextMatch(n.shiftKey?-1:1);else if(o==="+"||o==="=")e.zoom(.7,null);else if(o==="-")e.zoom(1/.7,null);else if(o==="Home"||
o==="End")e.toEnd(o==="End");else if(o==="PageUp"||o==="PageDown")t.dom.frame.scrollBy(0,(o==="PageUp"?-.8:.8)*t.size.height);else return o==="Escape"?e.escape():
!1;return!0}function Ve(t){let e=[0,0];for(let n of t)e[0]+=Xe[n][0],e[1]+=Xe[n][1];return e}function Ko(t,e,n){let{x:o,t0:r,t1:s,width:a}=n,{gutter:i}=e.size,{ticks:c}=bo(r,s,a);t.fillStyle=e.colors.line,t.fillRect(i,M-1,a,1),t.textAlign="left";for(let{
t:f,text:u}of c){let d=Math.round(o(f));t.fillStyle=e.colors.line,t.fillRect(d,M-8,1,8),t.fillStyle=e.colors.muted,d+60<e.size.width&&t.fillText(u,d+4,$+$t/2)}let{
range:l}=e;l!==null&&l[1]>r&&l[0]<s&&Ni(t,e,l,n)}function Ni(t,e,n,{x:o,width:r}){let{gutter:s}=e.size,a=v(n[1]-n[0]),i=t.measureText(a).width+12,c=(o(n[0])+o(n[1]))/
2,l=Math.min(Math.max(c-i/2,s),s+r-i);t.fillStyle=e.colors.tip,t.fillRect(l,$+3,i,$t-6),t.fillStyle=e.colors.tipText,t.fillText(a,l+6,$+$t/2)}function jo(t,e,n){
let{gutter:o,height:r}=e.size;t.fillStyle=e.colors.gutter,t.fillRect(0,0,o,r),t.textAlign="left";for(let s of n.parts){t.save(),t.beginPath(),t.rect(0,s.top,o-1,
s.bottom-s.top),t.clip(),qe(t,e,n,s,0);for(let a of s.lanes)Ii(t,e,n,s,a);t.restore()}t.fillStyle=e.colors.line,t.fillRect(o-1,0,1,r),t.fillRect(0,M-1,o,1);for(let{
bottom:s}of n.parts.slice(1))t.fillRect(0,s-2,e.size.width,2)}function Ii(t,e,n,o,r){let{layout:s,colors:a,size:i}=e,c=e.rows.heights[r]>1,l=S/2+4,f=n.down(r,s.
tops[r])+l,u=n.down(r,s.ends[r])-l,d=Math.round(Math.min(Math.max(f,o.top+l),u));t.fillStyle=a.muted,c&&Fi(t,12,d,e.collapsed.has(r)),t.fillStyle=r===e.focusLane&&
e.hasFocus?a.accent:a.text,t.fillText(zi(t,Hi(e,r),i.gutter-32),22,d)}function Hi({data:t,filters:e},n){let{label:o}=t.header.lanes[n];return e.has(n)?`${o} (${e.
get(n)?.text})`:o}function Fi(t,e,n,o){let r=o?[[-2.5,-4],[3,0],[-2.5,4]]:[[-4,-2.5],[4,-2.5],[0,3]];t.beginPath();for(let[s,a]of r)t.lineTo(e+s,n+a);t.fill()}function zi(t,e,n){
let o=e.slice(0,100);if(o===e&&t.measureText(o).width<=n)return o;for(;o.length>1&&t.measureText(`${o}…`).width>n;)o=o.slice(0,-1);return`${o}…`}function qe(t,e,{
down:n},{lanes:o},r){t.fillStyle=e.colors.lineSoft;for(let s of o)t.fillRect(r,Math.round(n(s,e.layout.ends[s]))-1,e.size.width-r,1)}function Xo({data:t,races:e},n){let{names:o,cats:r,lanes:s}=t.header,i=s[t.lane[n]].kind==="host"&&t.self[n]!==t.dur[n]?`, self ${v(t.self[n])}`:"",c=[o[t.name[n]].
slice(0,400)||"(no name)"],l=Ye(t,n),f=t.name[n+s[t.lane[n]].enclosing-1];l&&c.push(`${l}, the innermost: ${o[f].slice(0,200)}`),c.push(t.flags[n]&C.instant?"in\
stant":`${v(t.dur[n])}${i}`),c.push(`${r[t.cat[n]]||"no category"} · at ${Bi(t.start[n])}`);let u=t.launch[n];if(u>=0){let p=o[t.name[u]].slice(0,100);c.push(`\
launched by ${p}, ${v(t.start[n]-t.start[u])} earlier`)}let d=e.find(({event:p})=>p===n);return d&&c.push(`race: ${d.title}`),c}function Ye(t,e){let{enclosing:n}=t.
header.lanes[t.lane[e]],o=e===0||t.lane[e-1]!==t.lane[e];return n>1&&o?`${n} enclosing frames`:void 0}function ce(t,e){let{names:n,cats:o,lanes:r}=t.header,s=[n[t.
name[e]].slice(0,200)||"no name",o[t.cat[e]]||"no category"];return s.push(t.flags[e]&C.instant?"an instant":`lasts ${v(t.dur[e])}`),s.push(`starts at ${v(t.start[e])}`,
`on ${r[t.lane[e]].label}`),t.launch[e]>=0&&s.push(`launched by ${n[t.name[t.launch[e]]].slice(0,100)}`),s.join(", ")}function Vo(t){return t.slice(0,300).replace(
/^void /,"").replaceAll("(anonymous namespace)::","").replaceAll("at::native::","")||t.slice(0,300)}function qo(t){return t.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
"")||t}var Di=[[1e9,"s",9],[1e6,"ms",6],[1e3,"µs",3]];function Bi(t){let[e,n,o]=Di.find(([r])=>Math.abs(t)>=r)??[1,"ns",0];return`${(t/e).toFixed(o)} ${n}`}var Ui='11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',Wi=28;function Yo(t){let{painter:e,size:n,colors:o}=t,r=e.context;
r.setTransform(n.ratio,0,0,n.ratio,0,0),r.font=Ui,r.textBaseline="middle",r.fillStyle=o.bg,r.fillRect(0,0,n.width,n.height);let s=J(t);for(let a of s.parts)Gi(r,
t,s,a);tc(r,t,s),Ko(r,t,s),Do(r,t,s),Ho(r,t,s),Co(r,t,s),jo(r,t,s)}function Gi(t,e,n,o){let{gutter:r}=e.size;t.save(),t.beginPath(),t.rect(r,o.top,n.width,o.bottom-
o.top),t.clip(),Ki(t,e,n),qe(t,e,n,o,r),ji(t,e,n,o),Qi(t,e,n),Ro(t,e,n),t.restore()}function Ki(t,e,{x:n,t0:o,t1:r}){t.fillStyle=e.colors.band,t.globalAlpha=e.colors.
bandAlpha,e.steps.forEach((s,a)=>{a%2===0&&s.t1>o&&s.t0<r&&t.fillRect(n(s.t0),M,Math.max(1,n(s.t1)-n(s.t0)),e.size.height)}),t.globalAlpha=1}function ji(t,e,n,o){
let{painter:r,size:s}=e,a=Xi(e,n,o);if(!a.length)return;let{pixels:i}=n,{image:c,pixels:l}=No(r,i,a.length);l.fill(0,0,c.width*a.length);let f=a.flatMap(({lane:p,
row:m},g)=>Vi(e,n,p,m,l,g*c.width));r.stripContext.putImageData(c,0,0,0,0,i,a.length),t.imageSmoothingEnabled=!1;let[u,d]=[s.gutter,i/s.ratio];a.forEach(({lane:p,
row:m},g)=>{let w=Math.round(n.y(p,m));t.drawImage(r.stripCanvas,0,g,i,1,u,w,d,S-1)}),qi(t,e,n,f)}function Xi(t,{y:e},{lanes:n,top:o,bottom:r}){let s=[];for(let a of n)
for(let i=0;i<t.layout.shown[a];i++){let c=e(a,i);c>o-S&&c<r&&s.push({lane:a,row:i})}return s}function Vi(t,e,n,o,r,s){let{index:a,chosen:i,tones:c}=t,l=Wi*t.size.
ratio,f=e.y(n,o),u={t0:e.t0,w:e.w,width:e.pixels,out:r,base:s,minWidth:l},d=[],p=(m,g,w)=>So(m,a.laneRow[n]+o,u,g,(b,y,k)=>{w?.[m.at[b]]||d.push({i:m.at[b],tone:m.
tone[b],x0:y,x1:k,y:f,isDim:w!==null})});return i===null?p(a,c.pixels,null):(p(a,t.dimPixels,i.keep),p(i.index,c.pixels,null)),d}function qi(t,e,n,o){let{ratio:r,
gutter:s}=e.size;t.textAlign="left";for(let{i:a,tone:i,x0:c,x1:l,y:f,isDim:u}of o){let d=Math.max(0,c)/r,p=Math.min(n.width,l/r)-d-8,m=Ye(e.data,a)??Yi(t,e,e.data.
name[a],p);m&&(t.fillStyle=u?e.colors.muted:e.tones.ink[i],t.fillText(m,Math.round(s+d+4),Math.round(f)+S/2))}}function Yi(t,e,n,o){let{labels:r}=e.painter,s=r[n]??
Ji(t,e.data.header,n);if(r[n]=s,s.width<=o)return s.text;if(s.shortWidth<=o)return s.short;let a=Math.floor(s.short.length*o/s.shortWidth);for(;a>=2&&Zi(t,s,a)>
o;)a--;return a<2?"":`${s.short.slice(0,a)}…`}function Zi(t,e,n){return e.cuts[n]??=t.measureText(`${e.short.slice(0,n)}…`).width,e.cuts[n]}function Ji(t,e,n){
let o=e.short[n],r=o??Vo(e.names[n]),s=o??qo(r);return{text:r,short:s,cuts:[],width:t.measureText(r).width,shortWidth:t.measureText(s).width}}function Qi(t,e,n){
for(let{event:o}of e.syncs)o>=0&&Lt(t,e,n,o,Ke,1.5);for(let{event:o}of e.races)o>=0&&Lt(t,e,n,o,Ge,2.5);e.hover!==null&&e.hover!==e.selected&&Lt(t,e,n,e.hover,e.
colors.text,1),e.selected!==null&&Lt(t,e,n,e.selected,e.colors.accent,2.5),e.focused!==null&&e.focused!==e.selected&&e.hasFocus&&Lt(t,e,n,e.focused,e.colors.text,
2,[4,2])}function Lt(t,e,n,o,r,s,a=[]){let i=ht(e,n,o);if(i===null)return;t.strokeStyle=r,t.lineWidth=s,t.setLineDash(a);let c=Math.max(i.x,e.size.gutter-4);t.strokeRect(
c,i.y,Math.max(2,Math.min(i.x+i.width,e.size.width+4)-c),S-1),t.setLineDash([])}function tc(t,e,{x:n,width:o}){if(e.range===null)return;let{gutter:r,height:s}=e.
size,a=l=>Math.min(Math.max(l,r),r+o),[i,c]=e.range.map(l=>a(n(l)));c<=r||i>=r+o||(t.fillStyle=e.colors.accent,t.globalAlpha=e.colors.rangeAlpha,t.fillRect(i,$,
c-i,s-$),t.globalAlpha=1,i>r&&t.fillRect(i-.5,$,1,s),c<r+o&&t.fillRect(c-.5,$,1,s))}function Zo(t){let e=new Uint8Array(z.groups.length);for(let n of t.index.tone)
e[n/U|0]=1;return z.groups.flatMap((n,o)=>e[o]?[[n.label,t.tones.css[o*U]]]:[])}var Jo=2e3;function wt(t){if(t.isReleased)return;let{frame:e,stage:n,canvas:o}=t.dom,r=Math.max(1,e.clientWidth),s=Math.max(M+S,e.clientHeight),a=window.devicePixelRatio||
1;n.style.height=`${Math.max(s,Math.ceil(t.layout.total+M))}px`;let{size:i}=t;i.width!==r||i.height!==s||i.ratio!==a?(t.size={width:r,height:s,ratio:a,gutter:Math.
round(Math.min(188,Math.max(132,r*.2),r*.35))},o.width=Math.round(r*a),o.height=Math.round(s*a),o.style.width=`${r}px`,o.style.height=`${s}px`,le(t)):T(t)}function tr(t,e){
if(t.isReleased!==e)return;if(t.isReleased=!e,e){t.size={...t.size,width:0},wt(t);return}let{canvas:n}=t.dom;for(let o of[n,t.painter.stripCanvas])o.width=o.height=
0;t.painter.strip=null,t.overview=null}function le(t){if(t.isReleased)return;let e=performance.now();t.scroll=t.dom.frame.scrollTop,Yo(t),t.script.push(performance.
now()-e),t.script.length>Jo&&t.script.splice(0,Jo/2)}function T(t){t.pending||t.isGone||(t.pending=requestAnimationFrame(e=>{t.pending=0,!t.isGone&&(t.beforeFrame?.(
e),le(t))}))}function gt(t,e){let n=De(e,t.extent);n[0]===t.view[0]&&n[1]===t.view[1]||(t.view=n,t.options.onTime?.([...n]),T(t))}function ot(t,e){let n=De(e,t.
extent);if(t.held.clear(),matchMedia("(prefers-reduced-motion: reduce)").matches){gt(t,n);return}let o=t.view,r=null;t.beforeFrame=s=>{r??=s;let a=Math.min(1,(s-
r)/180),i=1-(1-a)**3;gt(t,a<1?[o[0]+(n[0]-o[0])*i,o[1]+(n[1]-o[1])*i]:n),a>=1?t.beforeFrame=null:T(t)},T(t)}function bt(t){let{data:e,names:n,search:o,filters:r}=t;
if(n===null&&o===null&&!r.size)t.chosen=null;else{let s=new Uint8Array(e.header.names.length);for(let c=0;c<s.length;c++)s[c]=+((n===null||n.has(c))&&(o===null||
o.isHit[c]));let a=new Uint8Array(e.n),i=e.header.lanes.map((c,l)=>r.get(l)?.isHit??null);for(let c=0;c<e.n;c++)a[c]=s[e.name[c]]&(i[e.lane[c]]?.[e.name[c]]??1);
t.chosen={keep:a,index:re(e,t.rows,t.tone,a)}}T(t)}function Ze(t){let{rows:e,collapsed:n,order:o,pinned:r}=t;t.layout=Zt(e.heights,n,o,r.size),wt(t)}function rt(t){
t.options.onSelect?.({range:t.range&&[...t.range],event:t.selected,names:t.names&&new Set(t.names)})}function st(t,e,n=!1){let{data:o,view:r,dom:s,layout:a}=t;s.
tip.hidden=!0,t.hover=null;let i=oe(o,t.rows,e),[c,l]=[o.start[i],o.start[i]+o.dur[i]],f=o.lane[i];t.rows.row[i]>=a.shown[f]&&t.collapsed.delete(f)&&Ze(t);let u=Jt(
t.layout,f,t.rows.row[i]),d=t.size.height-M,p=Qt(t),m=u<p;!m&&u<t.scroll+p?s.frame.scrollTop=u-p-8:!m&&u+S>t.scroll+d&&(s.frame.scrollTop=u+S+8-d);let g=r[1]-r[0],
w=g/(t.size.width-t.size.gutter);n?ot(t,Qo(c,l,4)):l-c<3*w?ot(t,Qo(c,l,30)):(l<r[0]+g*.02||c>r[1]-g*.02)&&ot(t,[(c+l-g)/2,(c+l+g)/2]),T(t)}function Qo(t,e,n){let o=e>
t?(e-t)*n/2:500;return[(t+e)/2-o,(t+e)/2+o]}function Rt(t,e){e<0||(t.focused=e,t.focusLane=t.data.lane[e],t.dom.spoken.textContent=ce(t.data,e),st(t,e))}function ec(t,e){let n=t.index.laneRow[t.data.lane[e]]+t.rows.row[e],o=G(t.index,n,t.data.start[e]);for(;o<t.index.first[n+1]&&t.index.at[o]!==e;)o++;return{r:n,
p:o}}function er(t,e,n){let o=oe(t.data,t.rows,e);if(n==="left"||n==="right"){let{r:i,p:c}=ec(t,o),l=n==="left"?c-1:c+1;return l>=t.index.first[i]&&l<t.index.first[i+
1]?t.index.at[l]:o}let r=t.data.lane[o],s=t.rows.row[o]+(n==="up"?-1:1),a=t.data.start[o]+t.data.dur[o]/2;if(s>=0&&s<t.layout.shown[r]){let i=n==="up"?t.data.start[o]:
a,c=Je(t,r,s,i,n==="up"?0:t.data.dur[o]/2);if(c>=0)return c}return nc(t,r,n==="up"?-1:1,a)??o}function nc(t,e,n,o){let{order:r}=t.layout;for(let s=r.indexOf(e)+
n;s>=0&&s<r.length;s+=n){let a=Je(t,r[s],0,o,1/0);if(a>=0)return a}return null}function Je(t,e,n,o,r){let{index:s}=t,a=s.laneRow[e]+n,i=ae(s,a,o,0);if(i>=0)return i;
let c=G(s,a,o),l=-1,f=r;for(let u of[c-1,c]){if(u<s.first[a]||u>=s.first[a+1])continue;let d=Math.max(s.s[u]-o,o-s.e[u],0);d<=f&&(l=s.at[u],f=d)}return l}function nr(t,e){
return t.data.launch[e]>=0?t.data.launch[e]:We(t,e,1)[0]??e}function or(t,e){let n=(t.view[0]+t.view[1])/2;for(let o of e){let r=Je(t,o,0,n,1/0);if(r>=0)return r}
return-1}function rr(t,e){if(!e.trim())return null;let n=Qe(t,e),o=0;for(let r=0;r<t.data.n;r++)o+=n[t.data.name[r]];return{isHit:n,count:o,at:-1}}function Qe(t,e){
let n=e.trim().toLowerCase();return t.lowerNames??=t.data.header.names.map(o=>o.toLowerCase()),Uint8Array.from(t.lowerNames,o=>+o.includes(n))}function sr({data:t,
view:e},n,o){let r=n.at,s=(f,u)=>t.start[f]<t.start[u]||t.start[f]===t.start[u]&&f<u,a=-1,i=-1;for(let f=0;f<t.n;f++){if(!n.isHit[t.name[f]])continue;let u=o>0?
s:(p,m)=>s(m,p);(i<0||u(f,i))&&(i=f),(r>=0?u(r,f):o>0?t.start[f]>=e[0]:t.start[f]<=e[1])&&(a<0||u(f,a))&&(a=f)}let c=a>=0?a:i,l=0;if(c>=0)for(let f=0;f<t.n;f++)
l+=n.isHit[t.name[f]]&&!s(c,f)?1:0;return{found:c,ordinal:l}}function Pt(t,e){e<0||t.rows.heights[e]<2||(t.collapsed.delete(e)||t.collapsed.add(e),tn(t,e,t.collapsed.has(e)?"folded":"unfolded"))}function fe(t,e){let{order:n,
pinned:o}=t;e<0||(n.splice(n.indexOf(e),1),o.delete(e)?n.splice(o.size,0,e):(n.splice(o.size,0,e),o.add(e)),tn(t,e,o.has(e)?"pinned":"no longer pinned"))}function Nt(t,e,n){
let{order:o,pinned:r}=t;if(e<0)return;let[s,a]=r.has(e)?[0,r.size-1]:[r.size,o.length-1];o.splice(o.indexOf(e),1),o.splice(Math.min(Math.max(n,s),a),0,e),tn(t,e,
`is lane ${o.indexOf(e)+1} of ${o.length}`)}function ar(t,e,n){n.trim()?t.filters.set(e,{text:n.trim(),isHit:Qe(t,n)}):t.filters.delete(e),bt(t)}function tn(t,e,n){
t.dom.spoken.textContent=`${t.data.header.lanes[e].label} ${n}`,Ze(t),t.lanesPanel?.update()}function It(t,e){t.beforeFrame=null,gt(t,e)}function ue(t,e){let{size:n,view:o}=t,r=e/(n.width-n.gutter)*(o[1]-o[0]);It(t,[o[0]+r,o[1]+r])}function en(t,e,n){let{
size:o,view:r}=t,s=n===null?.5:Math.min(Math.max((n-o.gutter)/(o.width-o.gutter),0),1),a=r[0]+s*(r[1]-r[0]);It(t,[a+(r[0]-a)*e,a+(r[1]-a)*e])}function ir(t,e){let n=(t.
view[1]-t.view[0])/2;It(t,[e-n,e+n])}function cr(t,e){let{extent:n,view:o}=t,r=o[1]-o[0],s=r*.02,a=e?n[1]+s-r:n[0]-s;ot(t,[a,a+r])}var oc=3;function fr(t){return{...rc(t),...sc(t),...ac(t)}}function rc(t){return{show:e=>It(t,e),pan:e=>ue(t,e),zoom:(e,n)=>en(t,e,n),centre:e=>ir(t,e),fit:()=>ot(
t,t.whole),toEnd:e=>cr(t,e)}}function sc(t){return{timeAt:e=>ur(t,e),hover:(e,n)=>ic(t,e,n),leave(){t.pointerX=null,dr(t,null)},click:(e,n)=>cc(t,e,n),zoomToEventAt(e,n){
let o=de(t,e,n);o!==null&&st(t,o,!0)},dragRange(e,n){t.range=[Math.min(e,n),Math.max(e,n)],T(t)},finishRange:()=>rt(t),measureTo(e,n){let[o,r]=[t.selected,de(t,
e,n)];return o===null||r===null||o===r?!1:(t.range=lo(t.data,o,r),t.selected=null,rt(t),T(t),!0)},clearRange(){t.range!==null&&(t.range=null,rt(t),T(t))},toggleLane:e=>Pt(
t,nt(t.layout,te(t,e))),dropLane(e,n){let[o,r]=[e,n].map(s=>nt(t.layout,te(t,s)));Nt(t,o,r<0?t.order.length-1:t.order.indexOf(r))}}}function ac(t){return{zoomToFocused(){
let e=t.focused??t.selected;e!==null&&st(t,e,!0)},toggleFocusLane:()=>Pt(t,lr(t)),pinFocusLane:()=>fe(t,lr(t)),arrow(e){t.focused!==null?Rt(t,er(t,t.focused,e)):
e==="left"||e==="right"?ue(t,(e==="left"?-1:1)*80):t.dom.frame.scrollBy(0,(e==="up"?-2:2)*S)},enter(){let{focused:e}=t;e===null?Rt(t,or(t,pr(t))):hr(t,e)},follow(){
t.focused!==null&&Rt(t,nr(t,t.focused))},escape:()=>lc(t),search:e=>he(t,e),nextMatch:e=>fc(t,e),hold:e=>uc(t,e),focusChanged(e){t.hasFocus=e,T(t)}}}function ur(t,e){
let n=J(t);return n.t0+(e-t.size.gutter)/n.scale}function de(t,e,n){let{index:o,layout:r,size:s}=t,a=yo(r,te(t,n));if(a===null||e<s.gutter||n<M)return null;let i=oc/
J(t).scale,c=ae(o,o.laneRow[a.lane]+a.row,ur(t,e),i);return c<0?null:c}function ic(t,e,n){let{dom:o}=t;t.pointerX=e;let r=de(t,e,n);r!==null&&wo(o,Xo(t,r),e+o.frame.
offsetLeft,n+o.frame.offsetTop),dr(t,r)}function dr(t,e){e===null&&(t.dom.tip.hidden=!0),e!==t.hover&&(t.hover=e,t.options.onHover?.(e),T(t))}function cc(t,e,n){
let o=de(t,e,n);t.focused=o,o===null&&(t.range=null),hr(t,o)}function hr(t,e){t.selected=e,e!==null&&(t.dom.spoken.textContent=`selected ${ce(t.data,e)}`),rt(t),
T(t)}function pr(t){let e=J(t).parts.reverse().flatMap(({lanes:n})=>n);return[...e,...t.order.slice(t.order.indexOf(e[e.length-1])+1)]}function lr(t){return t.focusLane>=
0?t.focusLane:pr(t)[0]??-1}function lc(t){if(t.search!==null)t.dom.search.value="",he(t,"");else if(t.focused!==null&&t.focused!==t.selected)t.focused=null;else if(t.
selected!==null||t.range!==null)Object.assign(t,{selected:null,range:null,focused:null}),rt(t);else return!1;return t.isArmed=!1,T(t),!0}function he(t,e){let n=rr(
t,e);return t.search=n,t.dom.matches.textContent=n&&`${E(n.count)} ${n.count===1?"match":"matches"}`,bt(t),n?.count??0}function fc(t,e){let{search:n}=t;if(n===null||
n.count===0)return;let{found:o,ordinal:r}=sr(t,n,e);n.at=o,t.dom.matches.textContent=`${E(r)} of ${E(n.count)}`,t.selected=o,Rt(t,o),rt(t)}function uc(t,e){let n=([
s,a],i)=>{s&&en(t,Math.exp(-s*2.2*i),t.pointerX),a&&ue(t,a*900*i)};if(matchMedia("(prefers-reduced-motion: reduce)").matches){n(Ve([e]),.12);return}if(t.held.has(
e))return;t.held.add(e);let o=null,r=s=>{let a=o===null?.016666666666666666:Math.min(.05,(s-o)/1e3);o=s,n(Ve(t.held),a),t.beforeFrame=t.held.size?r:null,t.held.
size&&T(t)};t.beforeFrame=r,T(t)}function mr(t){let{lanesButton:e,lanes:n}=t.dom;A(t,e,"click",()=>{t.lanesPanel??=dc(t),n.hidden=!n.hidden,e.setAttribute("aria-expanded",String(!n.hidden)),t.lanesPanel.
update()})}function dc(t){let e=t.data.header.lanes.map((o,r)=>hc(t,r)),n=h("ul",{"aria-label":"Lanes"});return t.dom.lanes.replaceChildren(n),{update(){let{activeElement:o}=document;
n.append(...t.order.map(r=>e[r].node));for(let r of e)r.update();o instanceof HTMLElement&&n.contains(o)&&o.focus()}}}function hc(t,e){let{label:n}=t.data.header.
lanes[e],o=(f,u,d)=>h("button",{type:"button",title:u,"aria-label":`${u}: ${n}`,onclick:d},f),r=o("Pin","Keep on top",()=>fe(t,e)),s=o("↑","Move up",()=>Nt(t,
e,t.order.indexOf(e)-1)),a=o("↓","Move down",()=>Nt(t,e,t.order.indexOf(e)+1)),i=o("Fold","Show one row",()=>Pt(t,e));i.disabled=t.rows.heights[e]<2;let c=h("\
input",{type:"search",placeholder:"Filter names","aria-label":`Filter names: ${n}`});c.addEventListener("input",()=>ar(t,e,c.value));for(let f of[r,s,a,i,c])f.setAttribute(
"data-lm-suppress-shortcuts","true");let l=h("span",{class:"cltl-lane",title:n},n);return{node:h("li",{},r,s,a,i,l,c),update(){r.setAttribute("aria-pressed",String(
t.pinned.has(e))),i.setAttribute("aria-pressed",String(t.collapsed.has(e)))}}}var pc=460,mc=150,gc="800px 0px";function wr(t,e,n={}){let o=Bo(t,e,n),r=fr(o);Wo(o,r),Go(o,r),bc(o,r),br(o,o.mode),wc(o),wt(o);let s=new ResizeObserver(()=>wt(
o));s.observe(o.dom.frame);let a=new IntersectionObserver(i=>tr(o,i[i.length-1].isIntersecting),{rootMargin:gc});return a.observe(o.dom.frame),o.cleanups.push(()=>s.
disconnect(),()=>a.disconnect()),le(o),yc(o,r)}function br(t,e){Object.assign(t,je(e)),po(t.dom.host,t.colors),go(t.dom,Zo(t)),T(t)}function wc({dom:t,layout:e,
options:n}){let o=n.height??Math.min(pc,Math.max(mc,e.total+M));t.frame.style.height=`${Math.round(o)+2}px`}function bc(t,e){let{dom:n}=t;A(t,n.zoomIn,"click",()=>e.
zoom(.5,null)),A(t,n.zoomOut,"click",()=>e.zoom(2,null)),A(t,n.fit,"click",e.fit),mr(t),A(t,n.next,"click",()=>e.nextMatch(1)),A(t,n.previous,"click",()=>e.nextMatch(
-1)),A(t,n.frame,"scroll",()=>T(t),{passive:!0})}function yc(t,e){return{setTheme:n=>br(t,n),fit:e.fit,zoomTo:(n,o)=>e.show([n,o]),getView:()=>[...t.view],select(n=null){
t.selected=n,n!==null&&st(t,n),T(t)},setRange(n,o=null){t.range=n===null||o===null?null:[n,o],T(t)},setNames(n){t.names=n===null?null:new Set(n),bt(t)},raceOf:n=>t.
races.find(o=>o.event===n&&n!==null)?.race??null,showRace:n=>gr(t,t.races.find(o=>o.race===n)),showSync:n=>gr(t,t.syncs.find(o=>o.group===n)),search(n){return t.
dom.search.value=n,he(t,n)},focus:()=>t.dom.canvas.focus({preventScroll:!0}),resize:()=>wt(t),boxOf:n=>vc(t,n),stats:()=>({frames:t.script.length,script:[...t.script]}),
destroy:()=>xc(t)}}function xc(t){t.isGone=!0,cancelAnimationFrame(t.pending);for(let e of t.cleanups.splice(0))e();t.dom.host.remove()}function gr(t,e){if(e){if(e.
event>=0)t.focused=e.event,st(t,e.event);else if(e.at<t.view[0]||e.at>t.view[1]){let n=(t.view[1]-t.view[0])/2;gt(t,[e.at-n,e.at+n])}T(t)}}function vc(t,e){let n=J(
t),o=t.data.lane[e];if(t.rows.row[e]>=t.layout.shown[o])return null;let r=n.x(t.data.start[e]),s=t.data.dur[e]*n.scale;return{x:r,y:n.y(o,t.rows.row[e]),width:s,
height:S-1}}function Mc(t,e){let n=t.header.lanes[t.lane[e]],o=[["Kind",t.header.cats[t.cat[e]]],["Start",v(t.start[e])],["Duration",v(t.dur[e])]];return n.kind==="host"&&t.
self[e]!==t.dur[e]&&o.push(["Self time",v(t.self[e])]),o.push([n.kind==="device"?"Stream":"Thread",n.label]),t.launch[e]>=0&&o.push(...kc(t,e)),o.push(...Ec(t,e)),
o.push(...Tc(t,e)),o.push(["Row",`trace.events.iloc[${t.rowOf(e)}]`]),o}function kc(t,e){let n=t.launch[e];return[["Launched by",t.header.names[t.name[n]]],["Wa\
ited",v(t.start[e]-t.start[n])]]}var Ac=60;function Tc(t,e){let n=[],o=t.detailOf("stack"),r=[],s=o(e),a=s!==null;for(let i=t.launch[e]>=0?t.launch[e]:t.parent[e];i>=
0;i=t.parent[i])s??=o(i),r.length<Ac&&r.push(B(t.header,t.name[i]));return s!==null&&!a&&n.push(["Call stack",String(s)]),r.length&&n.push(["Called from",r.join(
`
`)]),n}var Sc={shapes:"Input shapes",dtypes:"Input dtypes",module:"Module",grid:"Grid",block_dim:"Block",registers:"Registers a thread",shared_memory_bytes:"Sha\
red memory",blocks_per_sm:"Blocks per SM",warps_per_sm:"Warps per SM",occupancy_pct:"Occupancy",num_bytes:"Bytes",flops:"FLOPs",step:"Step",correlation_id:"Corr\
elation id",external_id:"External id",sequence_nr:"Sequence number",graph_id:"CUDA graph",graph_node_id:"Graph node",collective:"Collective",process_group:"Proc\
ess group",stack:"Call stack"};function Ec(t,e){let n=[];for(let[o,r]of Object.entries(t.detail(e)))r===null||r===""||n.push([Sc[o]??o,Oc(o,r)]);return n}function Oc(t,e){
return t.endsWith("_bytes")?x(Number(e)):t==="occupancy_pct"?`${e} %`:typeof e=="number"?E(e):String(e)}function yr(t,e,n){if(n===null){t.replaceChildren();return}
let o=h("dl",{class:"cl-facts"});for(let[r,s]of Mc(e,n))o.append(h("dt",{},r),h("dd",{},s));t.replaceChildren(h("h3",{"aria-level":2,class:"cl-event"},e.header.
names[e.name[n]]),o)}function xr({ts:t,values:e},[n,o]){let[r,s]=[0,t.length];for(;r+1<t.length&&t[r+1]<n;)r+=1;for(;s-2>r&&t[s-2]>o;)s-=1;return $c(t.subarray(r,s),e.subarray(r,s))}
function $c(t,e){let n=t.length;if(n<=4e3)return{ts:Array.from(t),values:Array.from(e)};let o=[0],r=(n-2)/(4e3/2-1);for(let s=0;s*r<n-2;s++){let[a,i]=[1+Math.floor(
s*r),Math.min(n-1,1+Math.floor((s+1)*r))],[c,l]=[a,a];for(let f=a;f<i;f++)e[f]<e[c]&&(c=f),e[f]>e[l]&&(l=f);a<i&&o.push(Math.min(c,l),...c===l?[]:[Math.max(c,l)])}
return o.push(n-1),{ts:o.map(s=>t[s]),values:o.map(s=>e[s])}}var pe={light:{lines:["#0b62c4","#b35c00","#6f42c1","#00796b"],text:"#57606a",grid:"#d9dee4",fill:.14},dark:{lines:["#6cb6ff","#f0a050","#c4a5ff","#5fd0c0"],text:"\
#9aa5b1",grid:"#30363d",fill:.2}},Cc=[[2**30,"GiB"],[2**20,"MiB"],[2**10,"KiB"],[1,"B"]],_c=[[1e9,"s"],[1e6,"ms"],[1e3,"µs"],[1,"ns"]],vr={displayModeBar:!1,responsive:!1,
doubleClick:!1,showTips:!1};function nn(t){return Math.max(56,Math.round(Math.min(188,Math.max(132,t*.2),t*.35))-1)}function Tr(t,e,{Plotly:n,theme:o,view:r,onRange:s}){
let a=h("div",{class:"cl-plot"});t.replaceChildren(a);let i=e.map(Lc),c=Mr(r[1]-r[0],_c),l=Mr(Math.max(...i.map(m=>m.value),1),Cc),f={root:a,series:e,peaks:i,time:c,
bytes:l,theme:o,range:null,view:r,width:0},u=n.newPlot(a,kr(f),Ar(f),vr).then(m=>{m.on("plotly_selected",g=>{g?.range&&s(Rc(g.range.x,c[0]))}),m.on("plotly_dese\
lect",()=>s(null)),m.on("plotly_doubleclick",()=>s(null))}),d=async()=>{await u,a.isConnected&&await n.react(a,kr(f),Ar(f),vr)},p=m=>(Object.assign(f,m),d());return{
ready:u,setRange:m=>p({range:m}),setView:m=>p({view:m}),setTheme:m=>p({theme:m}),async resize(){await d(),a.isConnected&&a.clientWidth&&n.Plots.resize(a)},destroy:()=>u.
then(()=>n.purge(a))}}function Lc({ts:t,values:e}){let n=0;for(let o=1;o<e.length;o++)e[o]>e[n]&&(n=o);return{ts:t[n],value:e[n]}}function Mr(t,e){return e.find(
([n])=>t>=n)??e[e.length-1]}function Rc(t,e){let[n,o]=t.map(r=>r*e);return n===o?null:[Math.min(n,o),Math.max(n,o)]}function kr({series:t,view:e,theme:n,time:o,
bytes:r}){return t.map((s,a)=>{let i=xr(s,e),c=pe[n].lines[a%4];return{type:"scatter",mode:"lines",name:s.label,x:i.ts.map(l=>l/o[0]),y:i.values.map(l=>l/r[0]),
line:{shape:"hv",width:1.5,color:c},fill:t.length===1?"tozeroy":"none",fillcolor:`rgba(${pt(c).join(",")},${pe[n].fill})`,text:i.values.map((l,f)=>`${x(l)} at ${v(
i.ts[f])}`),hoverinfo:"text+name"}})}function Ar(t){let{range:e,view:n,time:o,bytes:r}=t;t.width=t.root.clientWidth||t.width;let{text:s,grid:a,lines:i}=pe[t.theme],
c={gridcolor:a,zerolinecolor:a,linecolor:a,tickcolor:a,fixedrange:!0,separatethousands:!0};return{height:200,margin:{l:nn(t.width),r:1,t:22,b:34},paper_bgcolor:"\
rgba(0,0,0,0)",plot_bgcolor:"rgba(0,0,0,0)",font:{color:s,size:11,family:"inherit"},dragmode:"select",selectdirection:"h",showlegend:t.series.length>1,legend:{orientation:"\
h",x:0,y:1.18},hovermode:"closest",newselection:{line:{color:s,width:1}},xaxis:{...c,range:n.map(l=>l/o[0]),ticksuffix:` ${o[1]}`},yaxis:{...c,rangemode:"tozero",
ticksuffix:` ${r[1]}`},shapes:e===null?[]:[Nc(e,i[0],o[0])],annotations:Pc(t)}}function Pc({peaks:t,view:e,theme:n,time:o,bytes:r}){return t.map((s,a)=>{let i=pe[n].
lines[a%4];return{x:s.ts/o[0],y:s.value/r[0],text:`peak ${x(s.value)}`,showarrow:!0,arrowhead:0,arrowwidth:1,ax:s.ts>(e[0]+e[1])/2?-44:44,ay:-10,bgcolor:"rgba(0\
,0,0,0)",font:{color:i,size:11},arrowcolor:i}})}function Nc([t,e],n,o){return{type:"rect",xref:"x",yref:"paper",x0:t/o,x1:e/o,y0:0,y1:1,fillcolor:n,opacity:.18,
line:{width:1,color:n},layer:"below"}}var Ht=44,Sr=8,Ic=2e3,Er={light:["#0b62c4","#b35c00","#6f42c1","#00796b","#b02f78","#5a7a0a","#a3301f","#4f6673"],dark:["#6cb6ff","#f0a050","#c4a5ff","#5fd0c0",
"#f08cc4","#b5d35a","#ff9a8a","#a9bfca"]};function Or({unit:t,column:e},n){return n===void 0||Number.isNaN(n)?"-":e.endsWith("_bytes")?x(n):t==="%"?R(n):`${Math.
round(n).toLocaleString("en-US")} ${t}`}function on(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function $r(t,e=0){return t.
reduce((n,o)=>o>n?o:n,e)}function Cr(t,e,n,{theme:o,view:r}){let a=n.filter(({column:g})=>e.some(({values:w})=>w[g].some(b=>!Number.isNaN(b)))).map(g=>({gauge:g,
largest:g.full??Math.max(...e.map(({values:w})=>$r(w[g.column])),1e-9)})),i=h("p",{class:"cl-metrics-legend"}),l=F("svg",{class:"cl-metrics-plot",role:"img","ar\
ia-label":"Readings of the GPUs over time"}),f=h("p",{class:"cl-metrics-tip cl-hint","aria-live":"off"}),u=F("path",{class:"cl-metrics-cursor",fill:"none"});t.replaceChildren(
i,l,f);let d=`cl-metrics-${Math.random().toString(36).slice(2)}`,p=a.length*(Ht+Sr),m={host:t,devices:e,rows:a,id:d,height:p,legend:i,plot:l,cursor:u,tip:f,theme:o,
view:r,width:0};return l.addEventListener("pointermove",g=>zc(m,g)),l.addEventListener("pointerleave",()=>Lr(m)),me(m),{setView(g){m.view=g,me(m)},setTheme(g){m.
theme=g,me(m)},resize:()=>me(m),destroy:()=>t.replaceChildren()}}function _r(t){let e=Math.max(t.host.clientWidth||t.width,200);t.width=e;let n=nn(e),o=e-n-1,[r,
s]=t.view;return{width:e,gutter:n,inner:o,x:a=>n+(a-r)/(s-r)*o}}function me(t){let{devices:e,height:n,id:o,legend:r,plot:s}=t,a=_r(t),i=Er[t.theme],c=e.length>1?
e.map(({label:u})=>u):[];r.replaceChildren(...c.map((u,d)=>h("span",{style:`color:${i[d%i.length]}`},u)));let l=F("rect",{x:a.gutter,y:0,width:a.inner,height:n}),
f=t.rows.map((u,d)=>Hc(t,d,a));s.setAttribute("width",String(a.width)),s.setAttribute("height",String(n)),s.setAttribute("viewBox",`0 0 ${a.width} ${n}`),s.replaceChildren(
F("clipPath",{id:o},l),...f,t.cursor)}function Hc({devices:t,rows:e,id:n,theme:o,view:r},s,{width:a,gutter:i,x:c}){let{gauge:l,largest:f}=e[s],u=s*(Ht+Sr),d=Er[o],
p=w=>u+Ht-(Ht-3)*Math.min(w/f,1),m=Math.max(...t.map(({values:w})=>$r(w[l.column]))),g=t.map(({ts:w,values:b},y)=>F("path",{d:Fc(w,b[l.column],r,c,p),fill:"none",
stroke:d[y%d.length],"stroke-width":1.4}));return F("g",{},F("text",{x:0,y:u+16},l.title),F("text",{x:0,y:u+31,class:"cl-metrics-muted"},`up to ${Or(l,m)}`),F("\
path",{d:`M${i} ${u+Ht}H${a-1}`,class:"cl-metrics-base"}),F("g",{"clip-path":`url(#${n})`},...g))}function Fc(t,e,[n,o],r,s){let a=Math.max(on(t,n),0),i=Math.min(
on(t,o)+2,t.length),c=Math.max(1,Math.ceil((i-a)/Ic)),l="";for(let f=a;f<i;f+=c){let u=f;for(let d=f;d<Math.min(f+c,i);d++)(e[d]>e[u]||Number.isNaN(e[u]))&&(u=d);
Number.isNaN(e[u])||(l+=`${l?"L":"M"}${r(t[u]).toFixed(1)} ${s(e[u]).toFixed(1)}`)}return l}function zc(t,e){let{gutter:n,inner:o}=_r(t),r=e.clientX-t.plot.getBoundingClientRect().
left;if(r<n||r>n+o){Lr(t);return}let[s,a]=t.view,i=s+(r-n)/o*(a-s);t.cursor.setAttribute("d",`M${r.toFixed(1)} 0V${t.height}`);let c=t.devices.map(l=>Dc(t,l,i));
t.tip.textContent=[v(i),...c].filter(Boolean).join(" · ")}function Dc({devices:t,rows:e},{label:n,ts:o,values:r,slowed:s,reasons:a},i){let c=on(o,i);if(c<0)return"";
let l=e.map(({gauge:f})=>Or(f,r[f.column][c])).join(", ");return`${t.length>1?`${n}: `:""}${l}${s[c]?`, throttled by ${a[s[c]]}`:""}`}function Lr({cursor:t,tip:e}){
t.removeAttribute("d"),e.textContent=""}var rn={range:null,event:null,names:null};function Nr(){let t=rn,e=new Set,n={get:()=>t,isEmpty:()=>sn(t,rn),set(o,r){let s={...t,...o};if(s.names?.size===0&&(s.
names=null),!sn(t,s)){t=s;for(let a of[...e])a(t,r)}},clear:o=>n.set(rn,o),subscribe(o){return e.add(o),()=>e.delete(o)}};return n}function sn(t,e){return t.event===
e.event&&Rr(t.range,e.range)&&Rr(t.names,e.names)}function Rr(t,e){if(t===null||e===null)return t===e;let[n,o]=[[...t],[...e]];return n.length===o.length&&n.every(
(r,s)=>r===o[s])}function Bc({n:t,parent:e,launch:n,lane:o,start:r,dur:s},a){let i=new Uint8Array(t);i[a]=1;let c=r[a]+s[a];for(let l=a+1;l<t&&o[l]===o[a]&&r[l]<=
c;l++)e[l]>=0&&i[e[l]]&&(i[l]=1);for(let l=0;l<t;l++)n[l]>=0&&i[n[l]]&&(i[l]=1);return i}var Uc=3,Pr=new WeakMap;function K(t,e){let n=Pr.get(t)??[],o=n.find(s=>sn(
s.selection,e));if(o)return o.mask;let r=Wc(t,e);return Pr.set(t,[{selection:{...e},mask:r},...n].slice(0,Uc)),r}function Wc(t,{range:e,event:n,names:o}){if(e===
null&&n===null&&o===null)return null;let r=n===null?new Uint8Array(t.n).fill(1):Bc(t,n);if(e!==null&&Gc(t,r,e),o===null)return r;let s=new Uint8Array(t.header.names.
length);for(let a of o)s[a]=1;for(let a=0;a<t.n;a++)r[a]&=s[t.name[a]];return r}function Gc({n:t,start:e,dur:n},o,[r,s]){for(let a=0;a<t;a++){let i=e[a],c=i+n[a];
(i===c?i<r||i>s:i>=s||c<=r)&&(o[a]=0)}}function j(t,e,n,o){let r=e.map(([i,c])=>{let l=()=>{s(i),o(i)},f=String(i===n);return h("button",{type:"button",class:"cl-button","data-key":i,"aria-pressed":f,
onclick:l},c)}),s=i=>{for(let c of r)c.setAttribute("aria-pressed",String(c.dataset.key===i))};return{group:h("div",{class:"mm-choice",role:"group","aria-label":t},
h("span",{class:"mm-muted"},t),...r),mark:s}}function Q(t,e,n){let o=/[a-z]/i.test(t)?null:e;return h("button",{type:"button",class:"cl-button",title:e,"aria-la\
bel":o,onclick:n},t)}function Ir(){let t=["allocated","active","reserved"].map(e=>h("span",{class:"mm-key"},h("i",{class:`mm-line-${e}`}),e));return h("p",{class:"\
mm-legend"},...t)}function Hr(t,e){let n=Kc(t,e),o={};for(let[r,s]of Object.entries(e.self)){let a=new Float64Array(t.parent.length);s.forEach((i,c)=>{a[n[c]]+=i});for(let i=a.length-
1;i>0;i--)a[t.parent[i]]+=a[i];o[r]=a}t.before=o}function Kc(t,{parent:e,label:n}){let o=new Map;for(let s=1;s<t.parent.length;s++)o.set(`${t.parent[s]} ${t.labels[t.
label[s]]}`,s);let r=[];return e.forEach((s,a)=>{let i=s<0?0:r[s],c=`${i} ${n[a]}`,l=o.get(c)??jc(t,i,n[a]);o.set(c,l),r.push(l)}),r}function jc(t,e,n){let o=t.
parent.length;return t.parent.push(e),t.depth.push(t.depth[e]+1),t.label.push(t.labels.push(n)-1),t.sample.push(-1),t.children.push([]),t.children[e].push(o),o}var X=19,Fr=420,Xc=.8,zr=4,Vc=2,qc=.99,Yc={light:["#f3b562","#f0a06a","#eec57c","#e9927a","#f6d08f"],dark:["#a8642a","#9c5230","#8f6b2f","#a14b3f","#b07a35"]},Dr={
light:"#000000",dark:"#ffffff"},Zc={light:"#b79cf0",dark:"#7a5cc4"};function Br({parent:t,weight:e,children:n},o,r){let s=Jc(t,o,r),a=r/Math.max(e[o],1),i=[{node:o,
x:0,row:s.length}];for(let c=i.pop();c;c=i.pop()){let{x:l}=c,{row:f}=c;for(let u of[...n[c.node]].sort((d,p)=>e[p]-e[d])){let d=e[u]*a;if(d<Xc)break;let p=c.row<=
Vc?Qc(n,e,u):[u],m=p.length>=zr,g=m?p[p.length-1]:u;s.push({node:g,x:l,width:d,row:f,folded:m?p.length:0}),i.push({node:g,x:l,row:f+1}),l+=d}}return s}function Jc(t,e,n){
let o=[];for(let a=e;a>=0;a=t[a])o.unshift(a);let r=o.length>zr+1;return(r?[o[0],t[e],e]:o).map((a,i)=>({node:a,x:0,width:n,row:i,folded:r&&i===1?o.length-2:0}))}
function Qc(t,e,n){let o=[n];for(let r=n;;){let s=t[r].find(a=>e[a]>=qc*e[r]);if(s===void 0||!t[s].length)return o;o.push(s),r=s}}function Ur(t,e,n){let o=X*(1+
e.reduce((c,{row:l})=>Math.max(c,l),0)),r=Math.min(devicePixelRatio||1,2);t.width=Math.floor(n.width*r),t.height=Math.floor(o*r),t.style.width=`${n.width}px`,t.
style.height=`${o}px`;let s=I(t),a=getComputedStyle(t);s.scale(r,r),s.font=`11px ${a.fontFamily}`,s.textBaseline="middle";for(let c of e)tl(s,c,n);let i=e.find(
({node:c})=>c===n.focus);i&&el(s,i,a.color)}function tl(t,{node:e,x:n,width:o,row:r,folded:s},{graph:a,root:i,query:c,theme:l,options:f}){let u=s?`${s} callers,\
 to ${f.textOf(e)}`:f.textOf(e),d=c!==""&&u.toLowerCase().includes(c),p=e!==i&&r<=a.depth[i],[m,g]=nl(a,e,u,l,f),w=r*X;t.globalAlpha=c&&!d?.4:p?.6:1,t.fillStyle=
d?Zc[l]:m,t.fillRect(n,w,Math.max(o-1,.6),X-1),t.globalAlpha=1,!(o<=30)&&(t.save(),t.beginPath(),t.rect(n,w,o-3,X),t.clip(),t.fillStyle=d||t.globalAlpha<1?Dr[l]:
g,t.fillText(`${u}  ${f.format(a.weight[e])}`,n+4,w+X/2),t.restore())}function el(t,{x:e,width:n,row:o},r){t.strokeStyle=r,t.lineWidth=2,t.strokeRect(e+1,o*X+1,
Math.max(n-3,1),X-3)}function nl({weight:t,before:e},n,o,r,{colorOf:s}){if(e){let i=(t[n]-e[n])/Math.max(t[n],e[n],1),c=Math.round(Math.min(1,Math.abs(i))*80),[
l,f]=[i>0?"#d1493f":"#2f6fd0",r==="dark"?"#4a525c":"#dfe3e8"];return[`color-mix(in srgb, ${l} ${c}%, ${f})`,r==="dark"||c>55?"#ffffff":"#000000"]}if(s)return n?
s(n,o,r):r==="dark"?["#4a525c","#ffffff"]:["#dfe3e8","#000000"];let a=Yc[r];return[a[n?mt(o)%a.length:0],Dr[r]]}function ge(t,e){let n=ol(t,e),o=h("div",{class:"mm-tools"},n.input,n.reset,n.found);return t.replaceChildren(o,n.stage,n.spoken),al(n),{show(r){n.graph?.parent!==
r.parent&&Object.assign(n,{root:0,focus:-1}),n.graph=r,n.reset.hidden=n.root===0,n.query&&an(n,n.input.value),yt(n)},zoom:r=>Ft(n,r),search(r){n.input.value=r,an(
n,r)},get graph(){return n.graph},get root(){return n.root},boxes:()=>n.boxes,textOf:r=>n.graph?e.textOf(r):"",setTheme(r){n.theme=r,yt(n)},resize(){t.clientWidth!==
n.width&&yt(n)},destroy(){cancelAnimationFrame(n.pending),t.replaceChildren()}}}function ol(t,e){let n=h("canvas",{class:"mm-flame-canvas",tabindex:0,role:"appl\
ication","aria-label":`${e.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,"data-lm-suppress-shortcuts":"true"}),o=h("div",{class:"mm-flame\
-scroll"},n);o.style.maxHeight=`${Fr}px`;let r=h("div",{class:"mm-tip",hidden:!0});return{options:e,host:t,input:h("input",{type:"search",class:"mm-search",placeholder:e.
placeholder,"aria-label":e.searchLabel,"data-lm-suppress-shortcuts":"true"}),reset:h("button",{type:"button",class:"cl-button",hidden:!0},"Whole graph"),found:h(
"span",{class:"mm-muted","aria-live":"polite"}),scroller:o,stage:h("div",{class:"mm-flame-stage"},o,r),canvas:n,tip:r,spoken:h("p",{class:"mm-said","aria-live":"\
polite"}),theme:e.theme,graph:null,root:0,focus:-1,query:"",boxes:[],width:0,pending:0}}function yt(t){let{graph:e}=t;t.pending||!e||(t.pending=requestAnimationFrame(
()=>{t.pending=0,rl(t)}))}function rl(t){let{canvas:e,options:n,graph:o,root:r,focus:s,query:a,theme:i}=t;o&&(t.width=Math.max(t.host.clientWidth||t.width,160),
t.boxes=Br(o,r,t.width),Ur(e,t.boxes,{graph:o,root:r,focus:s,query:a,theme:i,width:t.width,options:n}))}function Ft(t,e){t.root=e,t.reset.hidden=e===0,t.tip.hidden=
!0,yt(t),t.options.onZoom(e)}function an(t,e){t.query=e.trim().toLowerCase(),yt(t),t.found.textContent=t.query&&t.graph?sl(t,t.graph):""}function sl({options:t,
query:e},n){let o=n.parent.length,[r,s]=[new Uint8Array(o),new Uint8Array(o)],[a,i]=[0,0];for(let c=1;c<o;c++){let l=n.parent[c];r[c]=t.textOf(c).toLowerCase().
includes(e)?1:0,s[c]=s[l]||r[l]?1:0,!(!r[c]||s[c])&&(a+=n.weight[c],i+=n.num[c])}return i?Wr(t,n,a,i):"nothing fits"}function Wr(t,e,n,o){let r=e.weight[0]?100*
n/e.weight[0]:0;return t.amountOf(n,o).replace("%",R(r))}function al(t){let{canvas:e,tip:n,input:o}=t;t.reset.addEventListener("click",()=>Ft(t,0)),o.addEventListener(
"input",()=>an(t,o.value)),e.addEventListener("click",r=>{let s=Gr(t,r);s&&Ft(t,s.node)}),e.addEventListener("pointermove",r=>il(t,r)),e.addEventListener("point\
erleave",()=>{n.hidden=!0}),e.addEventListener("keydown",r=>{!t.graph||r.altKey||r.ctrlKey||r.metaKey||ll(t,t.graph,r.key)&&(r.preventDefault(),r.stopPropagation())})}
function Gr({canvas:t,boxes:e},n){let o=t.getBoundingClientRect(),[r,s]=[n.clientX-o.left,Math.floor((n.clientY-o.top)/X)];return e.find(a=>a.row===s&&a.x<=r&&r<
a.x+Math.max(a.width,1))}function il(t,e){let{tip:n,graph:o,stage:r}=t,s=Gr(t,e);if(n.hidden=!s,!s||!o)return;n.replaceChildren(...Kr(t,o,s.node).map(i=>h("div",
{},i)));let a=r.getBoundingClientRect();n.style.left=`${Math.max(Math.min(e.clientX-a.left+12,t.width-n.offsetWidth-4),0)}px`,n.style.top=`${e.clientY-a.top+16}\
px`}function Kr({options:t},e,n){let o=[t.textOf(n),Wr(t,e,e.weight[n],e.num[n])];if(e.before){let r=e.weight[n]-e.before[n];o.push(`${r<0?"−":"+"}${t.format(
Math.abs(r))} against the other run`)}return[...o,...t.notesOf?.(n)??[]].filter(Boolean)}function cl({boxes:t,focus:e},{parent:n},o){let r=t.find(({node:c})=>c===
e)??t[0],s=t.filter(c=>c.row===r.row).sort((c,l)=>c.x-l.x),a=c=>s[Math.min(Math.max(s.indexOf(r)+c,0),s.length-1)].node;if(o==="ArrowUp")return Math.max(n[r.node],
0);if(o==="ArrowLeft")return a(-1);if(o==="ArrowRight")return a(1);if(o!=="ArrowDown")return null;let i=t.filter(({node:c})=>n[c]===r.node).sort((c,l)=>l.width-
c.width);return i.length?i[0].node:r.node}function ll(t,e,n){let o=cl(t,e,n);if(o!==null)t.focus=t.focus<0?t.boxes[0].node:o,t.spoken.textContent=Kr(t,e,t.focus).
join(", "),yt(t);else if((n==="Enter"||n===" ")&&t.focus>=0)Ft(t,t.focus);else if(n==="Escape"&&t.root)Ft(t,0);else return!1;return!0}var fl=new Set(["kernel","gpu_memcpy","gpu_memset"]);function jr(t){let e=o=>t.header.details.some(r=>r.name===o);return[["tree","call tree",!0],["python","Pyth\
on",t.header.cats.includes("python_function")],["stack","call stacks",e("stack")],["module","modules",e("module")]].flatMap(([o,r,s])=>s?[[o,r]]:[])}function Xr(t,e){
let n=ul(t),{n:o,header:r}=t,s=r.lanes.map(({kind:w})=>w==="device"),a=e==="stack"||e==="module"?dl(n,t,e):null,i=r.cats.map(w=>w==="python_function"),c=r.cats.
map(w=>w==="Trace"||w==="overhead");for(let w=0;w<o;w++){if(s[t.lane[w]]||c[t.cat[w]])continue;let b=a?a(w):-1,y=t.parent[w]<0?-1:n.nodeOf[t.parent[w]],k=b>=0?b:
y>=0?y:a?n.none:0;n.nodeOf[w]=e==="python"&&!i[t.cat[w]]?k:n.add(k,n.labelOf[t.name[w]],w)}let l=r.cats.map(w=>fl.has(w));for(let w=0;w<o;w++){if(!s[t.lane[w]]||
!l[t.cat[w]]||t.flags[w]&C.instant)continue;let b=t.launch[w],y=a?n.add(0,n.text("(no launch)"),-1):0,k=b<0?y:Math.max(n.nodeOf[b],0);n.nodeOf[w]=n.add(k,n.labelOf[t.
name[w]],w)}let{parent:f,depth:u,label:d,labels:p,sample:m,nodeOf:g}=n;return{parent:f,depth:u,label:d,labels:p,sample:m,nodeOf:g,children:hl(f)}}function ul(t){
let e=[...t.header.names],[n,o]=[new Set(t.header.step_names),e.length];n.size&&e.push("ProfilerStep*");let r=new Map,s=new Map,a=2**24,i={parent:[-1],depth:[0],
label:[-1],sample:[-1],labels:e,labelOf:t.header.names.map((c,l)=>n.has(l)?o:l),nodeOf:new Int32Array(t.n).fill(-1),none:0,text(c){let l=s.get(c)??e.push(c)-1;return s.
set(c,l),l},add(c,l,f){let u=c*a+l,d=r.get(u);return d===void 0&&(d=i.parent.length,r.set(u,d),i.parent.push(c),i.depth.push(i.depth[c]+1),i.label.push(l),i.sample.
push(f)),d}};return i}function dl(t,e,n){t.none=t.add(0,t.text(`(no ${n})`),-1);let o=new Map,r=e.detailOf(n);return s=>{let a=r(s);if(a===null)return-1;let i=String(
a),c=o.get(i);return c===void 0&&(c=(n==="stack"?i.split(`
`).reverse():i.split(".")).filter(Boolean).reduce((f,u)=>t.add(f,t.text(u),-1),0),o.set(i,c)),c}}function hl(t){let e=t.map(()=>[]);for(let n=1;n<t.length;n++)e[t[n]].
push(n);return e}function cn(t,{label:e,labels:n},o){return o?e[o]<t.header.names.length?B(t.header,e[o]):n[e[o]]:"all"}function Vr({header:t,memory:e}){let n=[];t.lanes.some(({kind:s,count:a})=>s==="device"&&a)&&n.push(["device","GPU time"]),t.lanes.some(({kind:s,count:a})=>s===
"host"&&a)&&n.push(["host","CPU time"]);let{n:o,num_actions:r}=t.memory;return o===r&&e.some(({event:s})=>s.some(a=>a>=0))&&n.push(["memory","allocated bytes"]),
n}function qr(t,e,n,o,r){let{parent:s,nodeOf:a}=e,i={weight:new Float64Array(s.length),num:new Float64Array(s.length)};n==="memory"?gl(t,a,o,r,i):pl(t,a,n==="de\
vice",o,r,i);let{weight:c,num:l}=i;for(let f=s.length-1;f>0;f--)c[s[f]]+=c[f],l[s[f]]+=l[f];return i}function pl(t,e,n,o,r,{weight:s,num:a}){let{n:i,lane:c,header:l,
flags:f}=t,u=l.lanes.map(({kind:m})=>m==="device"),d=n?null:r===null?t.self:ml(t,r),p=C.instant|C.waiting;for(let m=0;m<i;m++){let g=e[m];if(g<0||u[c[m]]!==n||f[m]&
p||o!==null&&!o[m])continue;let w=d?d[m]:r===null?t.dur[m]:Yr(t,m,r);w>0&&(s[g]+=w),a[g]+=1}}function Yr({start:t,dur:e},n,[o,r]){return Math.max(0,Math.min(t[n]+
e[n],r)-Math.max(t[n],o))}function ml(t,e){let n=new Float64Array(t.n);for(let o=0;o<t.n;o++){let r=Yr(t,o,e);n[o]+=r,t.parent[o]>=0&&(n[t.parent[o]]-=r)}return n}
function gl({memory:t},e,n,o,{weight:r,num:s}){let a=t.filter(({label:i})=>i!=="cpu");for(let{ts:i,bytes:c,action:l,actions:f,event:u}of a.length?a:t)for(let d=0;d<
i.length;d++){let p=u[d]<0?-1:e[u[d]];p<0||!f[l[d]].startsWith("alloc")||!(c[d]>0)||n!==null&&!n[u[d]]||o!==null&&(i[d]<o[0]||i[d]>o[1])||(r[p]+=c[d],s[p]+=1)}}function Zr(t,e,{theme:n,baseline:o,onEvent:r}){let[s,a]=[jr(e),Vr(e)],i={data:e,known:new Map,by:s[0][0],weight:a[0]?.[0]??"host",selection:{range:null,event:null,
names:null},isCompared:o!==null,baseline:o,tones:Ct(n)},c=b=>{Object.assign(i,b),w()},l=j("By",s,i.by,b=>c({by:b})),f=j("Width",a,i.weight,b=>c({weight:b})),u=Q(
"Show in the timeline","Select the longest call of this node in the timeline",()=>{let b=kl(i,m.root);b>=0&&r(b)}),d=h("p",{class:"mm-muted cl-flame-note",role:"\
status"}),p=h("div",{class:"cl-flame-graph"});t.replaceChildren(h("div",{class:"mm-tools"},l.group,f.group,...bl(i,c),u),d,p);let m=ge(p,{theme:n,label:"Costs b\
y call path",placeholder:"Search names",searchLabel:"Search call paths",textOf:b=>cn(e,xt(i),b),amountOf:(b,y)=>`${ln(i)(b)} (%), ${O(y,xl(i))}`,format:b=>ln(i)(
b),notesOf:b=>[vl(i,b)],colorOf:(b,y)=>Ml(i,b,y),onZoom(b){u.hidden=b===0}});u.hidden=!0;let g=!1,w=()=>{if(g=t.hidden===!0,g)return;let b=xt(i),y=K(e,{...i.selection,
names:null}),{weight:k,num:P}=qr(e,b,i.weight,y,i.selection.range),L={parent:b.parent,depth:b.depth,children:b.children,weight:k,num:P},N=wl(i,b);m.show(N?{...L,
before:N}:L),d.textContent=yl(i,k[0])};return w(),{flame:m,get paths(){return xt(i)},update:b=>c({selection:b}),shown(){g&&w()},setGrouping(b){l.mark(b),c({by:b})},
setWeight(b){f.mark(b),c({weight:b})},setTheme(b){i.tones=Ct(b),m.setTheme(b)},resize:()=>m.resize(),destroy:()=>m.destroy()}}function xt({data:t,known:e,by:n,baseline:o}){
let r=e.get(n)??Xr(t,n);return!e.has(n)&&o&&n==="tree"&&Hr(r,o),e.set(n,r),r}function wl({by:t,weight:e,selection:n,isCompared:o},r){if(!(!o||t!=="tree"||n.range||
n.event!==null))return r.before?.[e]}function bl(t,e){if(!t.baseline)return[];let n=[["yes",`against ${t.baseline.name}`],["no","this run"]];return[j("Colours",
n,"yes",o=>e({isCompared:o==="yes"})).group]}function yl(t,e){let{range:n,event:o}=t.selection,r=n?`of the selected ${v(n[1]-n[0])}`:o===null?"of the whole trac\
e":"within the selected event",s=t.isCompared&&t.baseline&&t.by==="tree"?"; red: more than in the other run, blue: less":"";return`${ln(t)(e)} ${r}${s}`}function ln({
weight:t}){return t==="memory"?x:v}function xl({weight:t}){return t==="memory"?"allocation":t==="device"?"kernel":"call"}function vl(t,e){let n=xt(t),o=e?n.labels[n.
label[e]]:"";return o===cn(t.data,n,e)?"":o.slice(0,400)}function Ml(t,e,n){let o=xt(t).sample[e],{data:r,tones:s}=t,a=o<0?"python_function":r.header.cats[r.cat[o]],
i=ee(a,n)*U+mt(n)%U;return[s.css[i],s.ink[i]]}function kl(t,e){let{data:n}=t,{parent:o,nodeOf:r}=xt(t),s=new Uint8Array(o.length);s[e]=1;for(let c=e+1;c<o.length;c++)
s[c]=s[o[c]];let[a,i]=[-1,-1];for(let c=0;c<n.n;c++)r[c]<0||!s[r[c]]||((a<0||n.dur[c]>n.dur[a])&&(a=c),r[c]===e&&(i<0||n.dur[c]>n.dur[i])&&(i=c));return i>=0?i:
a}var Al=new Set(["article","b","code","dd","details","div","dl","dt","h4","li","ol","p","pre","span","strong","summary","table","tbody","td","th","thead","tr","u\
l"]),Tl=new Set(["svg","title","rect","path","text"]),Sl=new Set(["class","colspan","scope","role","tabindex","open","title","aria-hidden","aria-label","viewBox",
"width","height","preserveAspectRatio","x","y","rx","d","fill","fill-opacity","stroke","stroke-width","stroke-opacity","stroke-dasharray","opacity","data-event",
"data-label","data-wide","font-family","font-size","font-weight","text-anchor"]);function El(t){return typeof t=="string"?document.createTextNode(t):D(t)}function D([
t,e,...n]){let o=Tl.has(t);if(!o&&!Al.has(t))throw new Error(`cudalens markup: the element ${t} is not known here`);let r=o?document.createElementNS(He,t):document.
createElement(t);for(let[s,a]of Object.entries(e))Sl.has(s)&&r.setAttribute(s,a);return t==="h4"&&r.setAttribute("aria-level","3"),r.append(...n.map(El)),r}var we="details.cg-fold",Jr="details.cg-row";function Qr(t,e){let n={model:e,host:t,traced:null,paths:[]};t.replaceChildren(...e.body.map(D));let[o]=_(t,".cg-fr\
ame",HTMLElement);return o&&(o.querySelectorAll(".cg-stop, .cg-fold").length>1&&o.before(Ol(o)),o.addEventListener("keydown",r=>Cl(r,o))),_l(n),{trace:r=>es(n,r),
setTheme(){},destroy:()=>t.replaceChildren()}}function Ol(t){let e=(r,s)=>{for(let a of _(t,r,HTMLDetailsElement))a.open=s},n=(r,s)=>h("button",{type:"button",class:"\
cl-button",onclick:s},r),o=h("div",{class:"cg-tools",role:"group","aria-label":"Graph tree"});return t.querySelector(we)&&o.append(n("Unfold all",()=>e(we,!0))),
o.append(n("Open all",()=>e(Jr,!0)),n("Close all",()=>{e(Jr,!1),e(we,!1)})),t.querySelector(".cg-stop.is-current")&&o.append(n("Go to current",()=>$l(t))),o}function $l(t){
let[e]=_(t,".cg-stop.is-current > .cg-row > summary",HTMLElement);e&&(ts(e),e.focus({preventScroll:!0}),fn(t,e))}function ts(t){for(let e=t;e;e=e.parentElement)
e instanceof HTMLDetailsElement&&e.matches(we)&&(e.open=!0)}function fn(t,e){let n=e.getBoundingClientRect().top-t.getBoundingClientRect().top;(n<0||n+e.offsetHeight>
t.clientHeight)&&(t.scrollTop+=n-t.clientHeight/3)}function Cl(t,e){let n=t.target;if(!(n instanceof HTMLElement)||n.tagName!=="SUMMARY"||t.ctrlKey||t.metaKey||
t.altKey)return;let o=_(e,"summary",HTMLElement).filter(i=>i.getClientRects().length),r=o.indexOf(n),s={ArrowDown:r+1,ArrowUp:r-1,Home:0,End:o.length-1},a=t.key===
"ArrowRight";if(t.key in s){let i=o[Math.min(Math.max(s[t.key],0),o.length-1)];i.focus({preventScroll:!0}),fn(e,i)}else if(a||t.key==="ArrowLeft")n.parentElement?.
toggleAttribute("open",a);else return;t.preventDefault(),t.stopPropagation()}function _l(t){let e=[...t.host.querySelectorAll(".cudalens-graph-paths li")].slice(
0,t.model.paths.length);t.paths=e.map((n,o)=>{let a=h("button",{type:"button","aria-pressed":"false",title:"Show this path in the tree",onclick:()=>es(t,t.traced===
o?null:o)});return a.append(...n.childNodes),n.replaceChildren(a),a})}function es(t,e){let{host:n,model:o,paths:r}=t;t.traced=e;for(let[c,l]of r.entries())l.setAttribute(
"aria-pressed",String(c===e));for(let c of n.querySelectorAll(".is-traced"))c.classList.remove("is-traced");let a=(e===null?[]:o.paths[e]??[]).flatMap(c=>_(n,`.\
cg-n${Number(c)}`,HTMLElement).slice(0,1));for(let c of a)c.classList.add("is-traced"),ts(c);let[i]=_(n,".cg-frame",HTMLElement);a.length&&fn(i,a[0])}function vt({clock:t},e){return t===null?e+1:e<0?0:t[e]}function Mt({clock:t,data:e},n){return t!==null?be(t,n):Math.min(Math.max(Math.floor(n)-1,-1),e.numRows-
1)}function be(t,e){let[n,o]=[0,t.length];for(;n<o;){let r=n+o>>1;t[r]<=e?n=r+1:o=r}return n-1}function kt({clock:t,data:e}){let n=t===null?e.numRows:t[e.numRows-
1]??0;return[0,Math.max(n*1.005,1)]}function at(t,e){let[n,o]=t.view;return(vt(t,e)-n)/(o-n)*t.width}var At=170,Ll=20,tt=18,V=At-Ll,ns={light:{allocated:"#0b62c4",active:"#b35c00",reserved:"#6b7683",grid:"#e3e8ed",paper:"#ffffff",mark:"#b3261e",cursor:"#1b1f24",
range:"rgba(11,98,196,.14)"},dark:{allocated:"#6cb6ff",active:"#f0a050",reserved:"#9aa5b1",grid:"#2a3138",paper:"#111418",mark:"#ff8a80",cursor:"#e6e9ed",range:"\
rgba(108,182,255,.2)"}},ye=["reserved","active","allocated"];function Rl(t,e){let n=Math.ceil(t.width),[o,r]=t.view,s={low:new Float64Array(n),high:new Float64Array(
n)},a=Mt(t,o);for(let i=0;i<n;i++){let c=Mt(t,o+(i+1)*(r-o)/n),[l,f]=[e[a+1],e[a+1]];for(let u=a+1;u<=c;u++){let d=e[u+1];d<l&&(l=d),d>f&&(f=d)}s.low[i]=l,s.high[i]=
f,a=c}return s}function os(t){let{canvas:e,shown:n,width:o,ratio:r}=t;if(n===null)return;let s=I(e),a=getComputedStyle(e),i=ye.map(u=>Rl(t,n.curves[u])),c=1;for(let{
high:u}of i)for(let d of u)d>c&&(c=d);let l=u=>V-Math.max(u,0)/(c*1.04)*(V-tt),f={context:s,colors:ns[t.theme],ink:a.color,y:l};s.setTransform(r,0,0,r,0,0),s.clearRect(
0,0,o,At),s.font=`11px ${a.fontFamily}`,Il(t,f,c),Fl(t,f),ye.forEach((u,d)=>{Pl(f,i[d],f.colors[u],u==="allocated")}),Hl(f,c);for(let u of n.marks)zl(t,f,u);Dl(
t,f,n.peak)}function Pl({context:t,y:e},{low:n,high:o},r,s){let a=o.length;un(t,r),t.beginPath(),t.moveTo(0,e(n[0]));for(let i=0;i<a;i++)t.lineTo(i+.5,e(o[i])),
o[i]!==n[i]&&t.lineTo(i+.5,e(n[i]));t.lineWidth=s?1.5:1.25,t.stroke(),s&&(t.lineTo(a,e(0)),t.lineTo(0,e(0)),t.globalAlpha=.14,t.fill(),t.globalAlpha=1)}function un(t,e){
t.strokeStyle=e,t.fillStyle=e}function Nl(t){let e=10**Math.floor(Math.log10(Math.max(t,1e-9)));return[1,2,5,10].map(n=>n*e).find(n=>n>=t*.999)??10*e}function Il({
width:t},{context:e,colors:n,y:o},r){e.lineWidth=1,e.strokeStyle=n.grid,e.globalAlpha=1;for(let s of rs(r)){let a=Math.round(o(s))+.5;e.beginPath(),e.moveTo(0,a),
e.lineTo(t,a),e.stroke()}}function rs(t){let e=2**Math.floor(Math.log2(t/2.5));return Array.from({length:Math.floor(t*1.02/e)},(n,o)=>(o+1)*e)}function Hl({context:t,
colors:e,ink:n,y:o},r){t.textBaseline="bottom",t.lineJoin="round",t.lineWidth=3.5,t.strokeStyle=e.paper,t.fillStyle=n;for(let s of rs(r)){let a=Math.round(o(s))-
.5;t.strokeText(x(s),3,a),t.fillText(x(s),3,a)}}function Fl({width:t,view:e,clock:n},{context:o}){let r=Math.max(Nl((e[1]-e[0])/Math.max(t/130,2)),1);o.textBaseline=
"top";for(let s=Math.ceil(e[0]/r)*r;s<=e[1];s+=r){let a=(s-e[0])/(e[1]-e[0])*t;o.beginPath(),o.moveTo(Math.round(a)+.5,V),o.lineTo(Math.round(a)+.5,V+4),o.stroke();
let i=s?v(s):"0",c=n===null?Math.round(s).toLocaleString("en-US"):i,l=o.measureText(c).width/2;o.fillText(c,Math.min(Math.max(a-l,0),t-2*l),V+6)}}function ss(t,e){
let n=vt(t,e);return n>=t.view[0]&&n<=t.view[1]}function zl(t,{context:e,colors:n,ink:o},{row:r,kind:s}){if(!ss(t,r))return;let a=at(t,r),i=s==="oom";un(e,i?n.mark:
o),e.setLineDash(i?[]:[3,3]),e.beginPath(),e.moveTo(a,tt-2),e.lineTo(a,V),e.stroke(),e.setLineDash([]),e.beginPath(),e.moveTo(a-5,tt-10),e.lineTo(a+5,tt-10),e.lineTo(
a,tt-2),e.fill()}function Dl(t,{context:e,colors:n,y:o},{row:r,bytes:s}){if(!ss(t,r))return;let[a,i]=[Math.max(at(t,r),3),o(s)];e.fillStyle=n.allocated,e.beginPath(),
e.arc(a,i,4,0,7),e.fill();let c=`peak ${x(s)}`;e.font=`600 ${e.font}`;let l=e.measureText(c).width+8;e.textBaseline="bottom",e.fillText(c,a+l>t.width?a-l:a+7,Math.
max(i-3,12))}function dn(t){let e=I(t.over),n=ns[t.theme];e.setTransform(t.ratio,0,0,t.ratio,0,0),e.clearRect(0,0,t.width,At);let o=at(t,t.row);if(t.since!==null){
let r=at(t,t.since);e.fillStyle=n.range,e.fillRect(Math.min(r,o),tt-4,Math.abs(o-r),V-tt+4)}un(e,n.cursor),e.lineWidth=1.5,e.beginPath(),e.moveTo(o,tt-6),e.lineTo(
o,V),e.stroke(),e.beginPath(),e.arc(o,V,3.5,0,7),e.fill()}function cs(t,e,n){let o=Bl(t,e,n),{canvas:r,over:s,tip:a}=o;return t.replaceChildren(h("div",{class:"mm-curve-stage"},r,s),a),Ul(o),{show(i,c,l){o.shown={curves:i,
peak:c,marks:l},as(o)},setMoment(i,c){Object.assign(o,{row:i,since:c}),r.setAttribute("aria-valuenow",String(i)),r.setAttribute("aria-valuetext",q(e,i)),o.shown&&
dn(o)},setAxis(i){o.clock=i?e.clock:null,xe(o,kt(o))},zoomTo:i=>xe(o,i??kt(o)),getView:()=>o.view,xOf:i=>at(o,i),setTheme(i){o.theme=i,o.shown&&pn(o)},resize(){
o.shown&&t.clientWidth!==o.width&&as(o)},stats:()=>({script:o.script}),destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function Bl(t,e,n){let{clock:o,
numRows:r}=e,s=h("canvas",{class:"mm-curve-canvas",tabindex:0,role:"slider","aria-label":"Moment of the history","aria-valuemin":-1,"aria-valuemax":r-1,"aria-va\
luenow":r-1});return{data:e,options:n,host:t,canvas:s,over:h("canvas",{class:"mm-over","aria-hidden":"true"}),tip:h("div",{class:"mm-tip",hidden:!0}),theme:n.theme,
clock:o,view:kt({clock:o,data:e}),shown:null,row:r-1,since:null,pointer:null,width:0,ratio:1,pending:0,script:[]}}function q(t,e){if(e<0)return"before the first\
 action";let n=`action ${(e+1).toLocaleString("en-US")} of ${t.numRows.toLocaleString("en-US")}`;return t.clock?`${v(t.clock[e])}, ${n}`:n}function as(t){t.width=
Math.max(t.host.clientWidth||t.width,160),t.ratio=Math.min(devicePixelRatio||1,2);for(let e of[t.canvas,t.over])e.width=Math.floor(t.width*t.ratio),e.height=Math.
floor(At*t.ratio),e.style.width=`${t.width}px`,e.style.height=`${At}px`;pn(t)}function xe(t,[e,n]){let[,o]=kt(t),r=Math.min(Math.max(n-e,t.clock===null?4:100),o),
s=Math.min(Math.max(e,0),o-r);t.view=[s,s+r],pn(t)}function pn(t){t.pending||(t.pending=requestAnimationFrame(()=>{if(t.pending=0,!t.shown)return;let e=performance.
now();os(t),dn(t),t.script.push(performance.now()-e)}))}function ve({data:t,options:e},n,o){let r=Math.min(Math.max(n,-1),t.numRows-1);e.onMoment(r,o===r?null:o)}
function mn({canvas:t},e){return e.clientX-t.getBoundingClientRect().left}function is(t,e){let[n,o]=t.view;return Mt(t,n+mn(t,e)/t.width*(o-n))}function Ul(t){let{
canvas:e}=t,n=()=>{t.pointer=null};e.addEventListener("pointerdown",o=>{o.button!==0||!t.shown||(t.pointer={x:o.clientX,row:is(t,o)},e.setPointerCapture(o.pointerId),
ve(t,t.pointer.row,null))}),e.addEventListener("pointermove",o=>{if(!t.shown)return;let r=is(t,o);Gl(t,t.shown.curves,o,r);let{pointer:s}=t;!s||Math.abs(o.clientX-
s.x)<3||ve(t,Math.max(r,s.row),Math.min(r,s.row))}),e.addEventListener("pointerup",n),e.addEventListener("pointercancel",n),e.addEventListener("pointerleave",()=>{
t.tip.hidden=!0}),e.addEventListener("wheel",o=>Wl(t,o),{passive:!1}),e.addEventListener("keydown",o=>{o.altKey||o.ctrlKey||o.metaKey||!jl(t,o)||(o.preventDefault(),
o.stopPropagation())})}function Wl(t,e){(e.ctrlKey||e.metaKey)&&(e.preventDefault(),hn(t,Math.exp(e.deltaY/200),mn(t,e)/t.width))}function hn(t,e,n){let[o,r]=t.
view,s=o+(r-o)*n;xe(t,[s-(s-o)*e,s+(r-s)*e])}function Gl(t,e,n,o){let{tip:r}=t,s=ye.map(a=>`${a} ${x(e[a][o+1])}`);r.replaceChildren(...[q(t.data,o),...s].map(a=>h(
"div",{},a))),r.hidden=!1,r.style.left=`${Math.max(Math.min(mn(t,n)+14,t.width-r.offsetWidth-4),0)}px`,r.style.top="24px"}function Kl(t,e){let{data:n,row:o,view:r,
width:s,shown:a}=t,i=c=>{let l=Mt(t,vt(t,o)+c*(r[1]-r[0])/s);return l===o?o+Math.sign(c):l};return e==="ArrowRight"?i(1):e==="ArrowLeft"?i(-1):e==="PageDown"?i(
s/10):e==="PageUp"?i(-s/10):e==="Home"?-1:e==="End"?n.numRows-1:e.toLowerCase()==="p"&&a?a.peak.row:null}function jl(t,e){let{row:n,since:o,view:r}=t,s=Kl(t,e.key);
if(s!==null)ve(t,s,e.shiftKey?o??Math.min(n,s):null);else if(e.key==="+"||e.key==="=")hn(t,1/1.6,(vt(t,n)-r[0])/(r[1]-r[0]));else if(e.key==="-")hn(t,1.6,.5);else if(e.
key==="0")xe(t,kt(t));else if(e.key==="Escape"&&o!==null)ve(t,n,null);else return!1;return!0}var gn=2147483647;async function Dt(t,e,n){let o=await Promise.all(n.map(r=>H(t,`${e}.${r}`)));return Object.fromEntries(n.map((r,s)=>[r,o[s]]))}function zt(t){
let e=new Float64Array(t.length),n=0;for(let o=0;o<t.length;o++)n+=t[o],e[o]=n;return e}var Xl=["addr","device","pool","units","is_asked","spare","alloc","relea\
sed","done","stack","category","block","facts"];async function Vl(t,e){let[n,o]=await Promise.all([Dt(t,"allocation",Xl),H(t,"addr.steps")]),r=zt(o),s=n.addr.length,
a=Float64Array.from(n.units,f=>f*e.unit),i=Int32Array.from(zt(n.alloc),f=>f-1),c=i.map((f,u)=>n.released[u]?f+n.released[u]-1:gn),l=i.map((f,u)=>n.done[u]?(n.released[u]?
c[u]:f)+n.done[u]-1:gn);return{n:s,addr:Float64Array.from(n.addr,f=>r[f]),bytes:a,requested:a.map((f,u)=>n.is_asked[u]?f-n.spare[u]:Number.NaN),device:n.device,
pool:n.pool,category:n.category,facts:n.facts,alloc:i,released:c,done:l,stack:Int32Array.from(n.stack,f=>f-1),block:Int32Array.from(zt(n.block),f=>f-1),byAddress:ql(
n.addr,r.length)}}function ql(t,e){let n=new Uint32Array(e+1);for(let r=0;r<t.length;r++)n[t[r]+1]++;for(let r=0;r<e;r++)n[r+1]+=n[r];let o=new Int32Array(t.length);
for(let r=0;r<t.length;r++)o[n[t[r]]++]=r;return o}var Yl=["addr","device","pool","units","added","removed","kind","grows"];async function Zl(t,e){let{addr:n,units:o,
added:r,removed:s,device:a,pool:i,kind:c,grows:l}=await Dt(t,"piece",Yl);return{n:n.length,addr:zt(n),bytes:Float64Array.from(o,f=>f*e.piece_unit),added:Int32Array.
from(r,f=>f-1),removed:Int32Array.from(s,f=>f?f-2:gn),device:a,pool:i,kind:c,grows:l}}async function Jl(t){let[e,n,o,r]=await Promise.all([Dt(t,"frame",["file",
"line","function"]),Dt(t,"stack",["sizes","frames"]),Z(t,"files"),Z(t,"functions")]),s=zt(n.sizes);return{n:n.sizes.length,numFrames:e.line.length,frameAt:a=>({
file:o[e.file[a]],line:e.line[a]-1,name:r[e.function[a]]}),idsOf:a=>n.frames.subarray(s[a]-n.sizes[a],s[a])}}async function Ql(t,e){let n=await H(t,"clock.steps");
if(!e.has_times)return null;let o=new Float64Array(e.num_rows);for(let r=1;r<o.length;r++)o[r]=o[r-1]+n[r-1]*e.time_unit;return o}function Me({file:t,line:e,name:n}){
let o=t?`${t.split(/[\\/]/).at(-1)}${e>=0?`:${e}`:""}`:"";return[n||"?",o].filter(Boolean).join(" ")}async function ls(t){let e=await Xt(t),{header:n}=e,[o,r,s,
a,i,c]=await Promise.all([Vl(e,n),Zl(e,n),Jl(e),Dt(e,"rest",["allocated","active"]),Ql(e,n),Z(e,"facts")]);return{header:n,numRows:n.num_rows,allocations:o,pieces:r,
stacks:s,facts:c.map(l=>l?JSON.parse(l):{}),clock:i,rest:a}}var tf=[["category","category"],["stack","call stack"],["pool","pool and stream"],["names","variable"],["cell","cell"]];function Tt({stream:t,pool:e,graphs:n}){
let[o,r]=e,a=!o&&!r?"default pool":`private pool (${o??"?"}, ${r??"?"})`,i=n.length?` of ${n.join(", ")}`:"";return`${a}${i}, stream ${t??"not recorded"}`}function wn({
stacks:t},e){if(e<0)return"stack not recorded";let n=[...t.idsOf(e)].map(t.frameAt),o=n.find(ef)??n.find(({file:r})=>r.endsWith(".py"))??n[0];return o?Me(o):"st\
ack not recorded"}function ef({file:t,name:e}){return(t.endsWith(".py")||t.startsWith("In[")||t.startsWith("<"))&&!/[\\/](torch|site-packages|dist-packages)[\\/]/.
test(t)&&e!==""}function ke({facts:t}){let e=n=>t.some(o=>n in o);return tf.filter(([n])=>n!=="names"&&n!=="cell"||e(n))}function Ae({allocations:t,facts:e},n){
let o=t.facts[n];return o?e[o-1]:{}}function St(t,e){let{names:n}=Ae(t,e);if(!n)return[];try{return JSON.parse(n).map(String)}catch{return[n]}}function bn(t,e,n){
return n==="names"?St(t,e)[0]??"":n==="cell"?Ae(t,e).cell??"":t.allocations[n][e]}function nf(t,e,n){let{categories:o,pools:r}=t.header;if(n==="names")return String(
e)||"no variable that is known";if(n==="cell")return String(e)||"not recorded";let s=Number(e);return n==="stack"?wn(t,s):n==="pool"?Tt(r[s]):s?o[s-1]:"unknown"}
function Bt(t,e,n){let o=new Map;for(let r of e){let s=bn(t,r,n),a=o.get(s)??{key:s,label:nf(t,s,n),bytes:0,num:0};a.bytes+=t.allocations.bytes[r],a.num+=1,o.set(
s,a)}return[...o.values()].sort((r,s)=>s.bytes-r.bytes)}var fs=25;function us(t,e,n,o){let r=Bt(e,n,o.by),s=ds(r),i=[ke(e).find(([u])=>u===o.by)?.[1]??o.by,"held","share","blocks"].map(u=>h("th",{scope:"col"},u)),c=r.
slice(0,fs).map(u=>rf(e,u,s,o)),l=h("table",{class:"mm-table"},h("thead",{},h("tr",{},...i)),h("tbody",{},...c)),f=of(r);t.replaceChildren(l,...f?[h("p",{class:"\
cl-hint"},f)]:[])}function ds(t){return t.reduce((e,{bytes:n})=>e+n,0)}function of(t){if(!t.length)return"Nothing was in use.";let e=t.slice(fs);return e.length?
`and ${E(e.length)} more with ${x(ds(e))}`:""}function rf(t,{key:e,label:n,bytes:o,num:r},s,{by:a,picked:i,onPick:c}){let l=i===e,f=s?100*o/s:0,u=h("span",{class:"\
mm-fill"});u.style.width=`${f}%`;let d=a==="stack"?Number(e):-1,p=h("tr",{tabindex:0,"data-picked":l,"aria-pressed":String(l),role:"button",title:d>=0?yn(t,d).join(
`
`):null},h("td",{class:"mm-name"},u,h("span",{},n)),h("td",{},x(o)),h("td",{},R(f)),h("td",{},E(r))),m=()=>c(l?null:e);return p.addEventListener("click",m),p.addEventListener(
"keydown",g=>{g.key!=="Enter"&&g.key!==" "||(g.preventDefault(),m())}),p}function yn({stacks:t},e){return[...t.idsOf(e)].map(n=>{let{file:o,line:r,name:s}=t.frameAt(
n);return`${o}${r>=0?`:${r}`:""} ${s||"?"}`.trim()})}function hs(t,e,{strip:n,allocation:o,bytes:r}){let{allocations:s,header:a}=t,i=e.strips[n],c=Tt(a.pools[i.pool]);if(o<0)return[`free, ${x(r)}`,i.used?"a gap be\
tween blocks":"an empty segment",c];let l=St(t,o).slice(0,3).join(", "),f=s.released[o]<=e.row;return[[l,x(s.bytes[o]),ps(t,o)].filter(Boolean).join(" · "),f?"\
freed, waits for a stream":"",wn(t,s.stack[o]),c].filter(Boolean)}function ps({allocations:t,header:e},n){let o=t.category[n];return o?e.categories[o-1]:null}function ms(t,e,n,o){
if(t.hidden=!o,!o)return;let r=o.allocation<0,a=(r?sf(e,n,o):af(e,n,o)).filter(([,l])=>l!=null&&l!=="").flatMap(([l,f])=>[h("dt",{},l),h("dd",{},String(f))]),i=r?
-1:e.allocations.stack[o.allocation],c=i>=0?yn(e,i):[];t.replaceChildren(h("h4",{"aria-level":3},r?"Free memory":"Block"),h("dl",{class:"cl-facts"},...a),...c.length?
[h("h4",{"aria-level":3},"Allocated by"),h("pre",{class:"mm-stack"},c.join(`
`))]:[])}function vn({header:t},e){return`0x${(BigInt(t.base)+BigInt(Math.round(e))).toString(16)}`}function xn(t){return`${x(t)} (${E(t)} bytes)`}function gs(t,e,n){
let o=e.strips[n.strip],r=`${x(o.bytes)} at ${vn(t,o.addr)}`;return[["pool",Tt(t.header.pools[o.pool])],["segment",`${r}${o.grows?", expandable":""}`],["segment\
 in use",R(100*o.used/o.bytes)]]}function sf(t,e,n){return[["size",xn(n.bytes)],["address",vn(t,n.from)],...gs(t,e,n)]}function af(t,e,n){let{allocation:o}=n,{bytes:r,
requested:s,released:a,addr:i}=t.allocations,{cell:c,num_tensors:l,graph:f,user_metadata:u}=Ae(t,o),d=s[o];return[["held by",St(t,o).join(", ")],["size",xn(r[o])],
["asked for",Number.isNaN(d)?null:xn(d)],["state",a[o]<=e.row?"freed, waits for a stream":"in use"],["category",ps(t,o)??"unknown"],...cf(t,e,o),["cell",c],["li\
ve tensors",l],["graphs",f],["metadata",u],["address",vn(t,i[o])],...gs(t,e,n)]}function cf(t,e,n){let{allocations:o,clock:r,numRows:s}=t,[a,i]=[o.alloc[n],o.done[n]];
return[["allocated",a<0?"before the history":q(t,a)],["age then",a>=0&&r?v(r[Math.max(e.row,0)]-r[a]):null],["freed",i<s?q(t,i):null]]}function ws(t,e){let n=lf(t,e),{allocated_bytes:o,active_bytes:r,reserved_bytes:s}=t.header.devices[e];return{allocated:Mn(n.allocated,o),active:Mn(n.active,r),
reserved:Mn(n.reserved,s)}}function lf({allocations:t,pieces:e,numRows:n,header:o,rest:r},s){let[a,i,c]=[0,1,2].map(()=>new Float64Array(n+1)),l=(u,d,p)=>{d>=0&&
d<n&&(u[d+1]+=p)};for(let u=0;u<t.n;u++){if(t.device[u]!==s)continue;let d=t.bytes[u];l(i,t.alloc[u],d),l(i,t.done[u],-d),l(a,t.alloc[u],d),l(a,t.released[u],-d)}
for(let u=0;u<e.n;u++)e.device[u]===s&&(l(c,e.added[u],e.bytes[u]),l(c,e.removed[u],-e.bytes[u]));let f=r.active.length/Math.max(o.devices.length,1);for(let u=0;u<
f;u++){let d=Math.min((u+1)*o.hidden.stretch,n)-1;l(a,d,r.allocated[s*f+u]),l(i,d,r.active[s*f+u])}return{allocated:a,active:i,reserved:c}}function Mn(t,e){let n=e-
t.reduce((o,r)=>o+r,0);for(let o=0;o<t.length;o++)n+=t[o],t[o]=n;return t}function bs(t){let e=0;for(let n=1;n<t.length;n++)t[n]>t[e]&&(e=n);return e-1}function ys(t){let e={parent:[-1],frame:[-1],depth:[0],leaf:new Int32Array(t.n)},n=new Map;for(let o=0;o<t.n;o++){let r=t.idsOf(o),s=0;for(let a=r.length-1;a>=0;a--){
let i=s*t.numFrames+r[a],c=n.get(i);c===void 0&&(c=e.parent.length,n.set(i,c),e.parent.push(s),e.frame.push(r[a]),e.depth.push(e.depth[s]+1)),s=c}e.leaf[o]=s}return e}
function xs(t,e,n){let o=t.parent.length,[r,s]=[new Float64Array(o),new Float64Array(o)];for(let a of n){let i=e.stack[a]<0?0:t.leaf[e.stack[a]];r[i]+=e.bytes[a],
s[i]+=1}for(let a=o-1;a>0;a--)r[t.parent[a]]+=r[a],s[t.parent[a]]+=s[a];return{bytes:r,num:s}}function vs(t){let e=t.parent.map(()=>[]);for(let n=1;n<t.parent.length;n++)
e[t.parent[n]].push(n);return e}function Ms(t,e,n){let o=e.stacks.n?ys(e.stacks):null,r=o?vs(o):[],s=i=>i&&o?e.stacks.frameAt(o.frame[i]):null,a=ge(t,{theme:n.theme,label:"Bytes by call stack",
placeholder:"Search functions and files",searchLabel:"Search call stacks",textOf(i){let c=s(i);return c?Me(c):"all"},amountOf:(i,c)=>`${x(i)} (%) in ${O(c,"bloc\
k")}`,format:x,notesOf:i=>[s(i)?.file??""],onZoom:i=>n.onZoom(i&&o?ff(o,i):null)});return{...a,get root(){return a.root},get graph(){return a.graph},show(i){if(!o)
return;let{bytes:c,num:l}=xs(o,e.allocations,i);a.show({parent:o.parent,depth:o.depth,children:r,weight:c,num:l})}}}function ff(t,e){let n=Uint8Array.from(t.leaf,
o=>uf(t,o,e)?1:0);return o=>o>=0&&n[o]===1}function uf({parent:t},e,n){for(let o=e;o>=0;o=t[o])if(o===n)return!0;return!1}var df=[{key:"requested",label:"asked for",meaning:"what programs asked for, of blocks in use",bytesOf:t=>t.active-t.internal},{key:"internal",label:"rounding",
meaning:"blocks in use that are larger than what was asked for",bytesOf:t=>t.internal},{key:"external",label:"gaps",meaning:"free memory in segments that hold s\
omething: it fits only what is small enough",bytesOf:t=>t.external},{key:"empty",label:"cached",meaning:"segments in which nothing is in use; torch.cuda.empty_c\
ache() returns them",bytesOf:t=>t.empty}];function ks(t,{sums:e}){let n=df.map(s=>({...s,bytes:s.bytesOf(e)})),o=n.filter(({bytes:s})=>s>0).map(hf),r=n.map(({key:s,
label:a,meaning:i,bytes:c})=>h("span",{class:"mm-key",title:i},h("i",{class:`mm-is-${s}`}),`${a} ${x(c)} (${R(As(e,c))})`));t.replaceChildren(h("p",{},pf(e)),h(
"div",{class:"mm-bar",role:"img","aria-label":"Reserved memory by use"},...o),h("p",{class:"mm-legend"},...r))}function hf({key:t,label:e,bytes:n}){let o=h("spa\
n",{class:`mm-part mm-is-${t}`,title:`${e}: ${x(n)}`});return o.style.flexGrow=String(n),o}function As({reserved:t},e){return t?100*e/t:0}function pf(t){if(!t.reserved)
return"No memory was reserved.";let e=R(As(t,t.internal+t.external)),n=x(t.largest);return`Fragmentation ${e} of ${x(t.reserved)} reserved; the largest block th\
at fits without new memory is ${n}.`}var it=["#0072b2","#e69f00","#009e73","#cc79a7","#56b4e9","#d55e00","#b8a400","#7a5cc4","#8c6d46","#3fb8a0","#c2476b"],Te={light:"#9aa4af",dark:"#6f7b87"},mf={light:[
"#fde08a","#f5ae4d","#e0733f","#b3404f","#7b2764","#421a5c"],dark:["#fff1b8","#fbc15e","#f08a4b","#d2555f","#a04a8f","#6d4fb0"]},Ss={light:{gap:[238,241,245],hatch:[
188,197,207],dim:[214,220,227]},dark:{gap:[33,39,46],hatch:[73,84,96],dim:[52,60,69]}},Es={category:"Category",stream:"Stream",age:"Age",stack:"Call stack"},gf={
category:bf,stream:yf,age:xf,stack:vf};function Et([t,e,n]){return(255<<24|n<<16|e<<8|t)>>>0}function Os(t,e,n,o){let r=gf[n](t,e,o),s=r.css.map(pt);return{...r,
rgb:s,pixels:Uint32Array.from(s,Et),edges:Uint32Array.from(s,a=>Et(wf(a,o)))}}function wf(t,e){let n=e==="dark"?0:255,[o,r,s]=t.map(a=>Math.round(a+(n-a)*.45));
return[o,r,s]}function bf(t,e,n){let{categories:o}=t.header,r=[Te[n],...o.map((a,i)=>it[i%it.length])],s=Bt(t,e.allocations,"category");return{css:r,of:a=>t.allocations.
category[a],legend:s.map(({key:a,label:i})=>({css:r[Number(a)],label:i}))}}function yf({header:t,allocations:e},n,o){let r=[...new Set(t.pools.map(({stream:c})=>c))];
r.sort((c,l)=>(c??1/0)-(l??1/0));let s=[Te[o],...r.map((c,l)=>it[l%it.length])],a=t.pools.map(({stream:c})=>c===null?0:1+r.indexOf(c)),i=[...new Set(n.strips.map(
({pool:c})=>a[c]))].sort((c,l)=>c-l);return{css:s,of:c=>a[e.pool[c]],legend:i.map(c=>({css:s[c],label:c?`stream ${r[c-1]}`:"stream not recorded"}))}}var Ts=4;function xf({
allocations:t,clock:e},n,o){let{alloc:r}=t,s=mf[o],a=[Te[o],...s],i=u=>e?e[Math.max(n.row,0)]-e[r[u]]:n.row-r[u],c=1;for(let u of n.allocations)r[u]>=0&&(c=Math.
max(c,i(u)));let l=u=>{if(r[u]<0)return 0;let d=Math.floor(Math.log(c/Math.max(i(u),c*1e-9))/Math.log(Ts));return s.length-Math.min(Math.max(d,0),s.length-1)},f=s.
map((u,d)=>{let p=c/Ts**(s.length-1-d),m=e?v(p):`${Math.round(p).toLocaleString("en-US")} actions`;return{css:u,label:`up to ${m}`}});return n.allocations.some(
u=>r[u]<0)&&f.push({css:a[0],label:"from before the history"}),{css:a,of:l,legend:f}}function vf(t,e,n){let o=Bt(t,e.allocations,"stack"),r=o.filter(({key:c})=>Number(
c)>=0).slice(0,it.length),s=new Map(r.map(({key:c},l)=>[Number(c),l+1])),a=Te[n],i=r.map(({label:c},l)=>({css:it[l],label:c}));return o.length>r.length&&i.push(
{css:a,label:"all others"}),{css:[a,...it],of:c=>s.get(t.allocations.stack[c])??0,legend:i}}var $s=1.6;function Cs(t,e){let{data:n}=t,o=h("div",{class:"mm-curve"}),r=h("div",{class:"mm-map"}),s=h("aside",{class:"mm-details","aria-label":"Chosen block",
hidden:!0}),a=h("p",{class:"mm-moment","aria-live":"polite"}),i=h("p",{class:"mm-legend"}),c=h("div",{class:"mm-fragmentation"}),l=h("div",{class:"mm-holders"}),
f=h("div",{class:"mm-flame"}),u=Mf(t,e),d=j("Colour",kf(),t.color,e.onColor),p=j("By",ke(n),t.by,e.onGrouping);return{all:[...n.header.devices.length>1?[u.group]:
[],...n.numRows?[Af(n.clock!==null,e),o,Tf()]:[],a,...Ef(n.header),c,h("div",{class:"mm-tools"},d.group,Sf(e)),i,h("div",{class:"mm-columns"},r,s),h("div",{class:"\
mm-tools"},h("h4",{"aria-level":3},"Who holds it"),p.group),l,...n.stacks.n?[h("h4",{"aria-level":3},"Bytes by call stack"),f]:[]],curve:o,map:r,details:s,moment:a,
legend:i,bar:c,holders:l,flame:f,devices:u,colors:d}}function Mf({data:t,device:e},{onDevice:n}){let o=t.header.devices.map(({label:r},s)=>[String(s),r]);return j(
"Device",o,String(e),r=>n(Number(r)))}function kf(){return Object.entries(Es).map(([e,n])=>[e,n.toLowerCase()])}function Af(t,{onAxis:e,onPeak:n,onEnd:o}){let r=[
["time","time"],["action","actions"]],s=h("div",{class:"mm-choice",role:"group","aria-label":"Moment"},Q("At the peak","Show the moment of the peak",n),Q("At th\
e end","Show the last moment",o)),a=t?j("Axis",r,"time",i=>e(i==="time")).group:null;return h("div",{class:"mm-tools"},Ir(),a,s)}function Tf(){return h("p",{class:"\
cl-hint"},"Click or drag along the curve to see what was there then.")}function Sf({onZoom:t,onFit:e}){return h("div",{class:"mm-choice",role:"group","aria-labe\
l":"Zoom of the map"},Q("−","Zoom out",()=>t(1/$s)),Q("+","Zoom in",()=>t($s)),Q("fit","Show all",e))}function Ef({hidden:t}){if(!t.num)return[];let e=`${O(t.
num,"small allocation")} (${x(t.bytes)} together)`;return[h("p",{class:"cl-hint"},`${e} are in the curve and not in the map.`)]}function _s(t,e,n){let o=e.map(({
css:a,label:i})=>{let c=h("i",{});return c.style.background=a,h("span",{class:"mm-key",title:i},c,i)}),r=h("span",{class:"mm-key"},h("i",{class:"mm-waits"}),"wa\
its for a stream"),s=h("span",{class:"mm-key"},h("i",{class:"mm-free"}),"free");t.replaceChildren(...o,...n?[r]:[],s)}function kn(t,e,n){let{allocations:o}=t,r=$f(o,e,n),s=Of(t.pieces,e,n),a=Cf(o,r,s);_f(a,o,r,n),n===t.numRows-1&&Lf(a,t,e);let i=s.reduce((c,{first:l,end:f})=>c+
f-l,0);return{device:e,row:n,allocations:r,strips:s,sums:a,outside:r.length-i}}function Of(t,e,n){let o=[];for(let r=0;r<t.n;r++){if(t.device[r]!==e||t.added[r]>
n||t.removed[r]<=n)continue;let[s,a,i,c]=[t.addr[r],t.bytes[r],t.pool[r],t.kind[r]],l=o.at(-1);l&&l.pool===i&&l.addr+l.bytes===s&&t.grows[r]&&l.grows?l.bytes+=a:
o.push({addr:s,bytes:a,pool:i,kind:c,grows:t.grows[r],first:0,end:0,used:0})}return o}function $f(t,e,n){let o=new Int32Array(t.n),r=0;for(let s=0;s<t.n;s++){let a=t.
byAddress[s];t.alloc[a]<=n&&n<t.done[a]&&t.device[a]===e&&(o[r++]=a)}return o.slice(0,r)}function Cf(t,e,n){let o={reserved:0,active:0,allocated:0,pending:0,internal:0,
external:0,empty:0,largest:0},r=0;for(let s of n){let a=s.addr+s.bytes;for(;r<e.length&&t.addr[e[r]]<s.addr;)r++;s.first=r;let i=s.addr,c=0;for(;r<e.length&&t.addr[e[r]]<
a;r++){let l=e[r];c=Math.max(c,t.addr[l]-i),i=t.addr[l]+t.bytes[l],s.used+=t.bytes[l]}s.end=r,o.reserved+=s.bytes,o.largest=Math.max(o.largest,c,a-i),o[s.used?"\
external":"empty"]+=Math.max(s.bytes-s.used,0)}return o}function _f(t,{bytes:e,released:n,requested:o},r,s){for(let a of r)t.active+=e[a],n[a]<=s?t.pending+=e[a]:
t.allocated+=e[a],Number.isNaN(o[a])||(t.internal+=e[a]-o[a])}function Lf(t,{header:e},n){let{end:o,allocated_bytes:r,active_bytes:s,reserved_bytes:a}=e.devices[n];
Object.assign(t,o??{},{allocated:r,active:s,reserved:a}),t.pending=t.active-t.allocated}var et=16,An=14,Se=22,Rf=[""," · small blocks"," · large blocks"];function Tn(t,e){let n=new Map;return e.strips.forEach((o,r)=>{let s=`${o.pool}/${o.kind}`,a=n.
get(s)??{strips:[],bytes:0,used:0,pool:o.pool,kind:o.kind,label:Tt(t.header.pools[o.pool])+Rf[o.kind]};a.strips.push(r),a.bytes+=o.bytes,a.used+=o.used,n.set(s,
a)}),[...n.values()].sort((o,r)=>o.pool-r.pool||r.kind-o.kind)}function Sn(t,e,n,o){let r=n*o,s=[],a=[],i={strip:[],from:[],bytes:[],x:[]},c=0,l=()=>{a.push({y:c,
first:i.strip.length,end:i.strip.length}),c+=et},f=(u,d,p,m)=>{i.strip.push(u),i.from.push(d),i.bytes.push(p),i.x.push(m/o),a[a.length-1].end=i.strip.length};for(let u of e){
s.push({y:c,group:u}),c+=Se,l();let d=0;for(let p of u.strips){let{bytes:m}=t.strips[p];d>0&&d+m>r&&(l(),d=0);for(let w=0;w<m;w+=r)w>0&&l(),f(p,w,Math.min(r,m-w),
d);let g=m>r?r:m;d+=g+Pf(m/o)*o}c+=4}return{heads:s,lines:a,part:i,height:c,width:n,bytesPerPx:o}}function Pf(t){return t>=12?3:t>=4?1:0}function Ls(t,e,n,o){let r=Math.
max(...e.map(i=>i.bytes),1),[s,a]=[r/n/4096,r*1.5/n];for(let i=0;i<24;i++){let c=Math.sqrt(s*a);Sn(t,e,n,c).height>o?s=c:a=c}return a}function Ut(t,e){let[n,o]=[
0,t.length];for(;n<o;){let r=n+o>>1;t[r].y<=e?n=r+1:o=r}return n-1}function En(t,e,n,o,r){let[s,a]=[n,o];for(;s<a;){let i=s+a>>1;t.addr[e[i]]+t.bytes[e[i]]<=r?s=
i+1:a=i}return s}function Wt(t,e,n,o,r){let s=Ut(n.lines,r);if(s<0||r>n.lines[s].y+et)return null;let{part:a}=n;for(let i=n.lines[s].first;i<n.lines[s].end;i++){
let c=a.bytes[i]/n.bytesPerPx;if(o<a.x[i]||o>=a.x[i]+Math.max(c,1))continue;let l=e.strips[a.strip[i]];return Gt(t,e,a.strip[i],l.addr+a.from[i]+(o-a.x[i])*n.bytesPerPx)}
return null}function Gt(t,e,n,o){let{allocations:r}=t,s=e.strips[n],a=En(r,e.allocations,s.first,s.end,o),i=a<s.end?e.allocations[a]:-1;if(i>=0&&r.addr[i]<=o)return{
strip:n,allocation:i,from:r.addr[i],bytes:r.bytes[i]};let c=a>s.first?e.allocations[a-1]:-1,l=c<0?s.addr:r.addr[c]+r.bytes[c];return{strip:n,allocation:-1,from:l,
bytes:(i<0?s.addr+s.bytes:r.addr[i])-l}}function ct(t,e,{strip:n,from:o,bytes:r}){let{part:s,lines:a,bytesPerPx:i}=e,c=o-t.strips[n].addr,l=[],f=s.strip.indexOf(
n),u=0;for(;f>=0&&f<s.strip.length&&s.strip[f]===n;f++){let[d,p]=[Math.max(c,s.from[f]),Math.min(c+r,s.from[f]+s.bytes[f])];if(!(d>=p)){for(;a[u].end<=f;)u++;l.
push({x:s.x[f]+(d-s.from[f])/i,y:a[u].y,width:(p-d)/i,height:An})}}return l}var Nf=6,[On,Rs,If]=[0,1,2],$n=0,Hf=64,Ff=400;function Ps(t,e){let{layout:n,top:o,height:r,ratio:s}=e,a=zf(e),i=Math.floor(r*s),c=new ImageData(Math.max(a.width,
1),Math.max(i,1)),l=new Uint32Array(c.data.buffer),f=[],u=Math.max(Ut(n.lines,o),0);for(let d=u;d<n.lines.length&&n.lines[d].y<o+r;d++){let p=n.lines[d];Df(e,a,
p,f),Wf(l,a,Math.round((p.y-o)*s),Math.round(An*s),i)}t.putImageData(c,0,0),t.save(),t.scale(s,s),t.textBaseline="middle",Gf(t,e),Kf(t,e,f),t.restore()}function zf({
layout:t,theme:e,ratio:n}){let o=Math.floor(t.width*n),{gap:r,hatch:s,dim:a}=Ss[e];return{width:o,line:new Uint32Array(o),kind:new Uint8Array(o),weight:new Float32Array(
o),gap:Et(r),hatch:Et(s),dim:Et(a)}}function Df(t,e,n,o){e.line.fill($n),e.kind.fill(On),e.weight.fill(0);for(let r=n.first;r<n.end;r++)Bf(t,e,r,n.y,o)}function Bf(t,e,n,o,r){
let{data:s,moment:a,layout:i,ratio:c}=t,{addr:l,bytes:f}=s.allocations,{part:u}=i,d=a.strips[u.strip[n]],p=c/i.bytesPerPx,m=u.x[n]*c,[g,w]=[d.addr+u.from[n],u.bytes[n]],
b=Math.min(Math.max(Math.round(m+w*p),Math.round(m)+1),e.width);e.line.fill(e.gap,Math.round(m),b),e.kind.fill(Rs,Math.round(m),b);let y=En(s.allocations,a.allocations,
d.first,d.end,g);for(let k=y;k<d.end;k++){let P=a.allocations[k],L=l[P]-g;if(L>=w)break;let N=m+Math.max(L,0)*p,Pe=m+Math.min(L+f[P],w)*p;Uf(t,e,k,{low:N,high:Pe,
right:b,y:o},r)}}function Uf({data:t,moment:e,ratio:n,codes:o,isDim:r,coloring:s},a,i,{low:c,high:l,right:f,y:u},d){let p=e.allocations[i],m=t.allocations.released[p]<=
e.row,g=r?.[i]===1,w=g?a.dim:s.pixels[o[i]],b=m?If:On,y=Math.round(c),k=Math.min(Math.round(l),f);if(k-y<1){let L=Math.min(Math.floor(c),a.width-1);l-c>a.weight[L]&&
(a.weight[L]=l-c,a.line[L]=w,a.kind[L]=b);return}if(a.line.fill(w,y,k),a.kind.fill(b,y,k),a.weight.fill(1,y,k),k-y<=3*n)return;a.line.fill(g?$n:s.edges[o[i]],k-
Math.round(n),k);let P=(k-y)/n;P>Hf&&d.length<Ff&&!g&&!m&&d.push({allocation:p,code:o[i],x:y/n,width:P,y:u})}function Wf(t,e,n,o,r){let{width:s,line:a,kind:i}=e;
for(let c=Math.max(n,0);c<Math.min(n+o,r);c++){let l=c*s;t.set(a,l);for(let f=0;f<s;f++){if(i[f]===On)continue;let u=(f+c)%Nf;i[f]===Rs?u===0&&(t[l+f]=e.hatch):
u<2&&(t[l+f]=$n)}}}function Gf(t,{layout:e,top:n,height:o,ink:r,font:s}){t.font=`600 12px ${s}`,t.fillStyle=r;for(let{y:a,group:i}of e.heads){if(a+Se<n||a>n+o)continue;
let c=O(i.strips.length,"segment"),l=x(Math.max(i.bytes-i.used,0)),f=`${i.label}: ${x(i.bytes)} in ${c}, ${l} free`;t.fillText(Ns(t,f,e.width),0,a-n+Se/2+1)}}function Kf(t,{
data:e,coloring:n,top:o,font:r},s){t.font=`11px ${r}`;for(let{allocation:a,code:i,x:c,width:l,y:f}of jf(s)){let[u,d,p]=n.rgb[i];t.fillStyle=.299*u+.587*d+.114*p>
140?"#000000":"#ffffff";let m=Ns(t,Xf(e,a),l-8);m&&t.fillText(m,c+4,f-o+et/2-.5)}}function jf(t){let e=new Map;for(let n of t){let o=e.get(n.allocation);(o===void 0||
n.width>o.width)&&e.set(n.allocation,n)}return e.values()}function Ns(t,e,n){if(t.measureText(e).width<=n)return e;let o=Math.min(e.length,Math.floor(n/3));for(;o>
2&&t.measureText(`${e.slice(0,o)}…`).width>n;)o--;return o>2?`${e.slice(0,o)}…`:""}function Xf(t,e){let[n]=St(t,e),o=x(t.allocations.bytes[e]);return n?`${n}\
 · ${o}`:o}function Is(t,e,n){let{picture:o}=t;!o?.moment.strips.length||e.altKey||e.ctrlKey||e.metaKey||Vf(t,o,e.key,n)&&(e.preventDefault(),e.stopPropagation())}function Vf(t,e,n,{
choose:o,zoom:r}){let s=Hs(e);if(n==="ArrowRight"||n==="ArrowLeft")o(zs(t,e,n==="ArrowRight"?1:-1),!0);else if(n==="ArrowDown"||n==="ArrowUp")o(qf(t,e,n==="Arro\
wDown"?1:-1),!0);else if(n==="Home")o(Cn(t,e,s[0]),!0);else if(n==="End")o(Fs(t,e,s[s.length-1]),!0);else if(n==="+"||n==="=")r(1.6);else if(n==="-")r(1/1.6);else if(n===
"0")r(1/t.zoom);else if(n==="Escape"&&t.chosen)o(null,!1);else return!1;return!0}function Hs({groups:t}){return t.flatMap(e=>e.strips)}function Cn({data:t},{moment:e},n){
return Gt(t,e,n,e.strips[n].addr)}function Fs({data:t},{moment:e},n){let o=e.strips[n];return Gt(t,e,n,o.addr+o.bytes-1)}function zs(t,e,n){let o=Hs(e),{chosen:r,
data:s}=t;if(!r)return Cn(t,e,o[0]);let a=e.moment.strips[r.strip],i=n>0?r.from+r.bytes:r.from-1;if(i>=a.addr&&i<a.addr+a.bytes)return Gt(s,e.moment,r.strip,i);
let c=o.indexOf(r.strip)+n;return c<0||c>=o.length?r:n>0?Cn(t,e,o[c]):Fs(t,e,o[c])}function qf(t,e,n){let{chosen:o,data:r,width:s}=t,{moment:a,layout:i}=e;if(!o)
return zs(t,e,1);let c=ct(a,i,o).at(n>0?-1:0),l=c&&i.lines[Ut(i.lines,c.y)+n];return l?Wt(r,a,i,Math.min(c.x+1,s-2),l.y+1)??Wt(r,a,i,i.part.x[l.first],l.y+1):o}var Us=420,Yf=60,Zf=6e4;function Ws(t,e,n){let o=Jf(e,n);return t.replaceChildren(o.scroller,o.tip,o.spoken),ou(o),{show:r=>Qf(o,r),setColor(r){return o.color=r,
Ee(o)},setDim(r){o.isDimmed=r,Ee(o)},choose:r=>_n(o,r,!0),zoomBy:r=>Oe(o,r,null),fit:()=>Oe(o,1/o.zoom,null),setTheme(r){return o.theme=r,Ee(o)},resize(){o.picture&&
o.scroller.clientWidth!==o.width&&Ln(o,o.picture.moment)},stats:()=>({script:o.script,zoom:o.zoom,lines:o.picture?.layout.lines.length??0}),hitAt:(r,s)=>$e(o,{x:r,
y:s}),boxesOf:r=>o.picture?ct(o.picture.moment,o.picture.layout,r):[],destroy(){cancelAnimationFrame(o.pending),t.replaceChildren()}}}function Jf(t,e){let n=h("\
canvas",{class:"mm-canvas",tabindex:0,role:"application","aria-label":"Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."}),o=h("ca\
nvas",{class:"mm-over","aria-hidden":"true"}),r=h("div",{class:"mm-spacer"}),s=h("div",{class:"mm-stage"},n,o);return{data:t,options:e,canvas:n,over:o,stage:s,spacer:r,
scroller:h("div",{class:"mm-scroll"},s,r),tip:h("div",{class:"mm-tip",hidden:!0}),spoken:h("p",{class:"mm-said","aria-live":"polite"}),theme:e.theme,color:e.color,
isDimmed:null,zoom:1,hover:null,chosen:null,picture:null,colors:null,width:0,height:0,ratio:1,numLines:3,pending:0,script:[]}}function Qf(t,e){let{picture:n}=t;
if(t.hover=null,t.tip.hidden=!0,n&&tu(n.moment,e)){let o=Tn(t.data,e);o.forEach((r,s)=>{n.layout.heads[s].group=r}),t.picture={...n,moment:e,groups:o}}else Ln(t,
e);return Ee(t)}function tu(t,e){return t.device!==e.device||t.strips.length!==e.strips.length?!1:e.strips.every(({addr:n,bytes:o,pool:r,kind:s},a)=>{let i=t.strips[a];
return n===i.addr&&o===i.bytes&&r===i.pool&&s===i.kind})}function Ln(t,e,n=null){let o=Tn(t.data,e);t.width=Math.max(t.scroller.clientWidth||t.width,160);let r=Ls(
e,o,t.width,eu(t,e,o)),s=Sn(e,o,t.width,r/t.zoom);t.picture={moment:e,groups:o,layout:s},t.height=Math.max(Math.min(s.height,Us),Yf),t.ratio=Math.min(devicePixelRatio||
1,2),t.scroller.style.height=`${t.height}px`,t.stage.style.height=`${t.height}px`,t.spacer.style.height=`${Math.max(s.height-t.height,0)}px`;for(let a of[t.canvas,
t.over])a.width=Math.floor(t.width*t.ratio),a.height=Math.floor(t.height*t.ratio),a.style.width=`${t.width}px`,a.style.height=`${t.height}px`;if(n){let[a]=ct(e,
s,n.hit);a&&(t.scroller.scrollTop=a.y-n.y)}Rn(t)}function eu(t,e,n){return t.numLines=Math.max(t.numLines,Math.ceil(e.allocations.length/4),e.strips.length),Math.
min(Us-4,n.length*26+t.numLines*et)}function Ee(t){if(!t.picture)return[];let{moment:e}=t.picture,{isDimmed:n}=t,o=Os(t.data,e,t.color,t.theme);return t.colors=
{coloring:o,codes:Uint16Array.from(e.allocations,o.of),isDim:n&&Uint8Array.from(e.allocations,r=>n(r)?1:0)},Rn(t),o.legend}function Rn(t){t.pending||(t.pending=
requestAnimationFrame(()=>{t.pending=0;let{picture:e,colors:n}=t;e&&n?.codes.length===e.moment.allocations.length&&nu(t,e,n)}))}function nu(t,{moment:e,layout:n},o){
let{data:r,theme:s,height:a,ratio:i}=t,c=performance.now(),l=getComputedStyle(t.canvas),[f,u,d]=[l.color,l.fontFamily,t.scroller.scrollTop];Ps(I(t.canvas),{data:r,
moment:e,layout:n,...o,theme:s,top:d,height:a,ratio:i,ink:f,font:u}),Pn(t),t.script.push(performance.now()-c),t.script.length>2e3&&t.script.splice(0,1e3)}function Pn(t){
let{picture:e,hover:n,chosen:o}=t,r=I(t.over);r.setTransform(t.ratio,0,0,t.ratio,0,0),r.clearRect(0,0,t.width,t.height),e&&(r.strokeStyle=getComputedStyle(t.canvas).
color,n&&Ds(t,e,r,n,1.5),o&&Ds(t,e,r,o,2.5))}function Ds({scroller:t,height:e},{moment:n,layout:o},r,s,a){if(s.strip>=n.strips.length)return;let i=t.scrollTop;r.
lineWidth=a;for(let c of ct(n,o,s))c.y+et<i||c.y>i+e||r.strokeRect(c.x-.5,c.y-i-.5,Math.max(c.width,2)+1,c.height+1)}function Oe(t,e,n){if(!t.picture)return;let{
moment:o,layout:r}=t.picture,s=n?n.y:t.height/3,a=$e(t,{x:n?n.x:1,y:s}),i=Math.max(Zf/Math.max(r.lines.length,1)*t.zoom,1);t.zoom=Math.min(Math.max(t.zoom*e,1),
i),t.tip.hidden=!0,Ln(t,o,a&&{hit:{...a,bytes:Math.max(a.bytes,1)},y:s})}function $e({data:t,picture:e,scroller:n},{x:o,y:r}){return e&&Wt(t,e.moment,e.layout,o,
r+n.scrollTop)}function ou(t){let{canvas:e,scroller:n}=t,o=s=>{let a=e.getBoundingClientRect();return{x:s.clientX-a.left,y:s.clientY-a.top}},r=s=>{!(s.ctrlKey||
s.metaKey)||!t.picture||(s.preventDefault(),Oe(t,Math.exp(-s.deltaY/200),o(s)))};n.addEventListener("scroll",()=>Rn(t)),n.addEventListener("wheel",r,{passive:!1}),
e.addEventListener("pointermove",s=>{let a=o(s);t.picture&&Bs(t,$e(t,a),a)}),e.addEventListener("pointerleave",()=>Bs(t,null,{x:0,y:0})),e.addEventListener("cli\
ck",s=>{t.picture&&_n(t,$e(t,o(s)),!1)}),e.addEventListener("keydown",s=>Is(t,s,{choose:(a,i)=>_n(t,a,i),zoom:a=>Oe(t,a,null)}))}function Bs(t,e,n){let{tip:o}=t,
r=e!==null&&e.strip===t.hover?.strip&&e.from===t.hover.from;if(t.hover=e,o.hidden=!e,e){r||o.replaceChildren(...t.options.describe(e).map(i=>h("div",{},i)));let s=Math.
min(n.x+14,t.width-o.offsetWidth-4),a=n.y+18+o.offsetHeight<t.height;o.style.left=`${Math.max(s,0)}px`,o.style.top=`${a?n.y+18:Math.max(n.y-o.offsetHeight-8,0)}\
px`}r||Pn(t)}function _n(t,e,n){let{picture:o,scroller:r,height:s,options:a}=t;if(t.chosen=e,e&&o&&n){let[i]=ct(o.moment,o.layout,e),c=r.scrollTop;i&&(i.y<c||i.
y+et>c+s)&&(r.scrollTop=i.y-s/2)}o&&Pn(t),t.spoken.textContent=e?a.describe(e).join(", "):"",a.onChoose(e)}var ru=80;async function Gs(t,e,{theme:n}){let o=su(await ls(e),n),{data:r,parts:s,curve:a,pool:i,flame:c}=o;return t.replaceChildren(...s.all),Nn(o,o.device),o.
peak&&lt(o,o.peak.row,null),cancelAnimationFrame(o.pending),Ks(o),{data:r,get moment(){return o.moment},get chosen(){return o.chosen},get since(){return o.since},
pool:i,curve:a,flame:c,showMoment:(l,f=null)=>lt(o,l,f),showStretch:(l,f)=>cu(o,l,f),showDevice:l=>Nn(o,l),setColor:l=>js(o,l),setTheme(l){a.setTheme(l),Hn(o,i.
setTheme(l)),c.setTheme(l)},resize(){for(let l of[a,i,c])l.resize()},destroy(){cancelAnimationFrame(o.pending),clearTimeout(o.settling);for(let l of[a,i,c])l.destroy();
t.replaceChildren()}}}function su(t,e){let n=iu(t),o=au(t),r=kn(t,o,t.numRows-1),s={data:t,device:o,row:t.numRows-1,since:null,moment:r,counted:r.allocations,peak:null,
by:n,picked:null,color:n,chosen:null,isInNode:null,isSettled:!1,pending:0,settling:void 0},a=Cs(s,{onDevice:c=>Nn(i,c),onAxis:c=>i.curve.setAxis(c),onPeak:()=>i.
peak&&lt(i,i.peak.row,null),onEnd:()=>lt(i,t.numRows-1,null),onZoom:c=>i.pool.zoomBy(c),onFit:()=>i.pool.fit(),onColor:c=>js(i,c),onGrouping:c=>mu(i,c)}),i=Object.
assign(s,{parts:a,curve:cs(a.curve,t,{theme:e,onMoment:(c,l)=>lt(i,c,l)}),pool:Ws(a.map,t,{theme:e,color:n,describe:c=>hs(t,i.moment,c),onChoose:c=>gu(i,c)}),flame:Ms(
a.flame,t,{theme:e,onZoom(c){i.isInNode=c,Ce(i)}})});return i}function au({header:t}){let{devices:e}=t;return e.reduce((n,o,r)=>o.reserved_bytes>e[n].reserved_bytes?
r:n,0)}function iu({allocations:t,stacks:e}){return t.category.some(n=>n>0)||!e.n?"category":"stack"}function Nn(t,e){let{data:n}=t;if(t.device=e,t.parts.devices.
mark(String(e)),t.picked=null,n.numRows){let o=ws(n,e),r=bs(o.allocated);t.peak={row:r,bytes:o.allocated[r+1]};let{index:s}=n.header.devices[e],a=n.header.marks.
filter(i=>i.device===null||i.device===s);t.curve.show(o,t.peak,a)}lt(t,t.row,t.since)}function lt(t,e,n){t.row=e,t.since=n,t.data.numRows&&t.curve.setMoment(e,n),
cancelAnimationFrame(t.pending),t.pending=requestAnimationFrame(()=>Ks(t))}function cu(t,[e,n],o){let{clock:r,header:s}=t.data;if(!r)return;let a=Number(BigInt(
o)-BigInt(s.t0)),[i,c]=[be(r,e+a),be(r,n+a)];lt(t,c,i===c?null:i)}function Ks(t){let{data:e,row:n,since:o,parts:r,chosen:s}=t,{alloc:a}=e.allocations;t.moment=kn(
e,t.device,n),t.counted=t.moment.allocations.filter(i=>o===null||a[i]>o),r.moment.replaceChildren(...uu(t)),ks(r.bar,t.moment),Hn(t,t.pool.show(t.moment)),Ce(t),
clearTimeout(t.settling),t.settling=setTimeout(()=>lu(t),t.isSettled?ru:0),s&&t.pool.choose(fu(t,s.allocation))}function lu(t){t.isSettled=!0,In(t),t.flame.show(
t.counted)}function fu({data:t,moment:e},n){let{addr:o,bytes:r}=t.allocations,s=n<0?-1:e.allocations.indexOf(n),a=e.strips.findIndex(({first:i,end:c})=>i<=s&&s<
c);return a<0?null:{strip:a,allocation:n,from:o[n],bytes:r[n]}}function uu({data:t,row:e,since:n,moment:o,counted:r,peak:s}){let{sums:a}=o,i=hu(t,e,s),c=O(o.allocations.
length,"block"),l=O(o.strips.length,"segment"),f=`${x(a.allocated)} allocated in ${c}, ${x(a.reserved)} reserved in ${l}`,u=a.pending?`, ${x(a.pending)} freed a\
nd waiting for a stream`:"",d=o.outside?`; ${O(o.outside,"block")} in no known segment`:"",p=n===null?"":pu(t,r,n),m=e===t.numRows-1?du(t,o):"";return[h("strong",
{},`${i}: `),`${f}${u}${d}${m}.${p}`]}function du({allocations:{alloc:t,bytes:e}},n){let o=0;for(let r of n.allocations)t[r]<0&&(o+=e[r]);return o?`; ${x(o)} of\
 it from before the recording`:""}function hu(t,e,n){return e===n?.row?`At the peak (${q(t,e)})`:e===t.numRows-1?"At the end":e<0?"Before the first action":`Aft\
er ${q(t,e)}`}function pu(t,e,n){let o=e.reduce((s,a)=>s+t.allocations.bytes[a],0),r=O(e.length,"block");return` ${x(o)} of it in ${r} came since ${q(t,n)} and \
stayed; the rest is pale.`}function In(t){us(t.parts.holders,t.data,t.counted,{by:t.by,picked:t.picked,onPick(e){t.picked=e,In(t),Ce(t)}})}function Ce({data:t,pool:e,
since:n,picked:o,by:r,isInNode:s}){if(n===null&&o===null&&!s){e.setDim(null);return}let{alloc:a,stack:i}=t.allocations;e.setDim(c=>n!==null&&a[c]<=n||o!==null&&
bn(t,c,r)!==o||s!==null&&!s(i[c]))}function mu(t,e){t.by=e,t.picked=null,In(t),Ce(t)}function js(t,e){t.color=e,t.parts.colors.mark(e),Hn(t,t.pool.setColor(e))}
function Hn({parts:t,moment:e},n){_s(t.legend,n,e.sums.pending>0)}function gu(t,e){let{details:n}=t.parts;t.chosen=e;let o=n.hidden;ms(n,t.data,t.moment,e),o!==
n.hidden&&t.pool.resize()}var wu=1500;function Xs(t){let e=D(t),[n]=_(e,".cl-race-code",HTMLElement);n&&yu(n);let[o]=_(e,":scope > .cudalens-race-value",HTMLElement);return o&&bu(e,o),e}
function bu(t,e){let n=`cl-race-tab-${Math.random().toString(36).slice(2)}`,o=[...t.children].filter(c=>c!==e&&!c.matches("h4, .cl-race-what")),r=h("div",{class:"\
cl-race-panel"},...o),s=[r,e],a=["Accesses","Values"].map((c,l)=>h("button",{type:"button",role:"tab",id:`${n}-${l}`,"data-lm-suppress-shortcuts":"true"},c)),i=c=>{
for(let[l,f]of a.entries())f.setAttribute("aria-selected",String(l===c)),f.tabIndex=l===c?0:-1,s[l].hidden=l!==c};for(let[c,l]of s.entries())l.setAttribute("rol\
e","tabpanel"),l.setAttribute("aria-labelledby",`${n}-${c}`),a[c].addEventListener("click",()=>i(c)),a[c].addEventListener("keydown",f=>{f.key!=="ArrowLeft"&&f.
key!=="ArrowRight"||(f.preventDefault(),f.stopPropagation(),i(1-c),a[1-c].focus())});t.append(h("div",{class:"cl-race-tabs",role:"tablist","aria-label":"What is\
 known of the race"},...a),r,e),i(e.querySelector(".cl-value-confirmed")?1:0)}function yu(t){let e=t.textContent,n=h("div",{class:"cl-race-copy"}),o=h("button",
{type:"button",class:"cl-button","data-lm-suppress-shortcuts":"true"},"Copy");o.addEventListener("click",async()=>{o.textContent=await xu(e,t)?"Copied":"Selecte\
d: press Ctrl+C",setTimeout(()=>{o.textContent="Copy"},wu)}),t.replaceWith(n),n.append(t,o)}async function xu(t,e){try{return await navigator.clipboard.writeText(
t),!0}catch{return getSelection()?.selectAllChildren(e),document.execCommand("copy")}}var vu=4,Vs=10;function qs(t,e,{onChoose:n}={}){let o={model:e,onChoose:n,kind:null,at:0,shown:e.races,cards:new Map,items:[],id:`cl-race-${Math.random().toString(
36).slice(2)}`,list:h("ul",{class:"cl-race-list",role:"listbox",tabindex:"0","aria-label":"Races, worst first","data-lm-suppress-shortcuts":"true"}),card:h("div",
{class:"cl-race-host","aria-live":"polite"}),tools:h("div",{class:"cl-race-tools",role:"group","aria-label":"Kinds of races"})},r=e.races.length===1,s=r?o.card:
h("div",{class:"cl-race-split"},o.list,o.card);return r||(Mu(o),Eu(o)),t.replaceChildren(...o.tools.childElementCount?[o.tools]:[],s),Js(o),{choose:a=>Su(o,a),chosen:()=>o.
shown[o.at].row,setTheme(){},destroy:()=>t.replaceChildren()}}function Mu(t){let{races:e,more:n}=t.model,o=new Map;for(let{kind:r,title:s}of e)o.set(r,{title:s,
number:(o.get(r)?.number??0)+1});if(o.size>1&&e.length>=vu){let r=[...o].map(([s,{title:a,number:i}])=>({kind:s,text:`${a} ${E(i)}`}));for(let{kind:s,text:a}of[
{kind:null,text:`all ${E(e.length)}`},...r])t.tools.append(ku(t,s,a))}if(n){let r=`and ${O(n,"race")} more in trace.races`;t.tools.append(h("span",{class:"cl-hi\
nt"},r))}}function ku(t,e,n){let o=()=>{t.kind=e,Ys(t),Zs(t)},s={type:"button",class:"cl-button","aria-pressed":String(e===t.kind),onclick:o};return h("button",
{...s,"data-kind":e??""},n)}function Ys({tools:t,kind:e}){for(let n of _(t,"button",HTMLButtonElement))n.setAttribute("aria-pressed",String(n.dataset.kind===(e??
"")))}function Zs(t){let e=t.shown[t.at];t.shown=t.model.races.filter(n=>t.kind===null||n.kind===t.kind),t.at=Math.max(0,t.shown.indexOf(e)),Js(t)}function Js(t){
t.items=t.shown.map((e,n)=>Au(t,e,n)),t.list.replaceChildren(...t.items),Fn(t,t.at)}function Au(t,e,n){let o=t.model.races.indexOf(e)+1;return h("li",{role:"opt\
ion",id:`${t.id}-${n}`,"aria-selected":"false",onclick:()=>Qs(t,n)},h("b",{},`${E(o)}. ${e.title}`),` of ${e.tensor}, ${e.times}`,...e.places.map(r=>h("small",{},
r)))}function Fn(t,e){t.items[t.at]?.setAttribute("aria-selected","false"),t.at=e;let n=t.shown[e],o=t.items[e];o.setAttribute("aria-selected","true"),t.list.setAttribute(
"aria-activedescendant",o.id),Tu(t.list,o);let r=t.cards.get(n)??Xs(n.card);t.cards.set(n,r),t.card.replaceChildren(r)}function Tu(t,e){let n=e.offsetTop-t.offsetTop;
n<t.scrollTop?t.scrollTop=n:n+e.offsetHeight>t.scrollTop+t.clientHeight&&(t.scrollTop=n+e.offsetHeight-t.clientHeight)}function Qs(t,e){Fn(t,e),t.onChoose?.(t.shown[e])}
function Su(t,e){t.shown.some(o=>o.row===e)||(t.kind=null,Ys(t),Zs(t));let n=t.shown.findIndex(o=>o.row===e);n>=0&&Fn(t,n)}function Eu(t){t.list.addEventListener(
"keydown",e=>{if(e.ctrlKey||e.metaKey||e.altKey)return;let n=t.shown.length-1,o={ArrowDown:t.at+1,ArrowUp:t.at-1,Home:0,End:n,PageDown:t.at+Vs,PageUp:t.at-Vs};e.
key in o&&(e.preventDefault(),e.stopPropagation(),Qs(t,Math.min(Math.max(o[e.key],0),n)))})}async function _e(t){let e=new Blob([t]).stream().pipeThrough(new DecompressionStream("gzip"));return new Uint8Array(await new Response(e).arrayBuffer())}async function zn(t){
return JSON.parse(new TextDecoder().decode(await _e(t)))}var ta=Symbol.for("cudalens.libraries");function Ou(){let t=globalThis;return t[ta]??=new Map,t[ta]}async function Dn(t,e,n){
let o=Ou(),r=`${t}@${e}`,s=o.get(r);return s===void 0&&(s=n(t).then(_e).then($u),s.catch(()=>o.delete(r)),o.set(r,s)),(await s).default}var ea=["$","moduleName"];
async function $u(t){let e=URL.createObjectURL(new Blob([t],{type:"text/javascript"})),n=ea.map(o=>Object.getOwnPropertyDescriptor(globalThis,o));try{let o=await import(e);
return"default"in o?o:{default:Reflect.get(globalThis,"moduleName")}}finally{URL.revokeObjectURL(e),ea.forEach((o,r)=>{let s=n[r];s?Object.defineProperty(globalThis,
o,s):Reflect.deleteProperty(globalThis,o)})}}function na(t,e,n){let o=Math.random().toString(36).slice(2),r=new Set,s="",a=n.map(({key:f})=>h("div",{id:`cl-${o}-${f}`,class:"cl-tab-panel",role:"tabpanel",hidden:!0})),
i=n.map(({key:f,title:u})=>h("button",{type:"button",class:"cl-tab",role:"tab","data-key":f,"aria-controls":`cl-${o}-${f}`,"data-lm-suppress-shortcuts":"true",onclick:()=>c(
f)},u)),c=f=>{s=f,n.forEach((u,d)=>{let p=u.key===f;i[d].setAttribute("aria-selected",String(p)),i[d].tabIndex=p?0:-1,a[d].hidden=!p,p&&r.has(f)&&u.onShow?.(),!(!p||
r.has(f))&&(r.add(f),u.fill(a[d]))})},l=h("div",{class:"cl-tabs",role:"tablist","aria-label":e},...i);return l.addEventListener("keydown",f=>{let u={ArrowRight:1,
ArrowLeft:-1}[f.key];if(u===void 0)return;let d=(i.findIndex(p=>p.dataset.key===s)+u+n.length)%n.length;c(n[d].key),i[d].focus(),f.preventDefault(),f.stopPropagation()}),
t.replaceChildren(l,...a),n.length&&c(n[0].key),{show:c,current:()=>s}}var oa="ProfilerStep*",Cu=new Set(["Trace","overhead","gpu_user_annotation","cuda_sync"]);function ra(t){let e=Float64Array.from(t.self),n=new Int32Array(t.n);for(let a=0;a<
t.n;a++)n[a]=t.flags[a]&C.folded?n[t.parent[a]]:a,n[a]!==a&&(e[n[a]]+=t.self[a]);let o=Uint32Array.from(t.header.names.keys()),r=t.header.step_names;for(let a of r)
o[a]=r[0];let s=Uint8Array.from(t.header.lanes,a=>+(a.kind==="device"));return{self:e,group:o,steps:r,device:s}}function sa(t,e,n){let{n:o,flags:r,lane:s,name:a,
dur:i}=t,{self:c,group:l,device:f}=e,u=C.folded|C.instant,d=_u(2*t.header.names.length);for(let m=0;m<o;m++){if(n!==null&&!n[m]||r[m]&u)continue;let g=l[a[m]]*2+
f[s[m]];d.count[g]===0&&(d.first[g]=m),d.self[g]+=c[m],r[m]&C.waiting||(d.cost[g]+=c[m]),Lu(d,g,i[m])}let p=[...d.count.keys()].filter(m=>d.count[m]).sort((m,g)=>d.
first[m]-d.first[g]);return Pu(p.map(m=>Ru(t,e,d,m)))}function _u(t){let e=()=>new Float64Array(t);return{first:new Int32Array(t),count:e(),total:e(),self:e(),cost:e(),
min:e().fill(1/0),max:e().fill(-1/0),mean:e(),spread:e()}}function Lu(t,e,n){t.count[e]+=1,t.total[e]+=n,n<t.min[e]&&(t.min[e]=n),n>t.max[e]&&(t.max[e]=n);let o=n-
t.mean[e];t.mean[e]+=o/t.count[e],t.spread[e]+=o*(n-t.mean[e])}function Ru(t,e,n,o){let r=o>>1,s=e.steps.includes(r),[a,i]=[n.count[o],n.total[o]];return{ids:s?
e.steps:[r],name:s?oa:t.header.names[r],short:s?oa:B(t.header,r),side:o&1,cat:t.header.cats[t.cat[n.first[o]]],count:a,total:i,self:n.self[o],cost:n.cost[o],min:n.
min[o],max:n.max[o],mean:i/a,std:a>1?Math.sqrt(n.spread[o]/(a-1)):null}}function Pu(t){let e=o=>Cu.has(o.cat)?0:o.cost,n=[0,0];for(let o of t)n[o.side]+=e(o);return t.
map(({cost:o,...r})=>({...r,share:n[r.side]>0?100*e({...r,cost:o})/n[r.side]:0}))}var Nu={cpu_op:"CPU op",user_annotation:"range",gpu_user_annotation:"GPU range",cuda_runtime:"runtime",cuda_driver:"driver",kernel:"kernel",gpu_memcpy:"copy",gpu_memset:"\
set",python_function:"Python",cuda_sync:"sync",overhead:"overhead"};function Iu({mean:t,std:e}){let n=e!==null?` <span class="spread">± ${v(e)}</span>`:"";return`${v(
t)}${n}`}function Hu({share:t,side:e}){let n=e?"GPU":"CPU";return`<span class="bar"><i style="width:${t.toFixed(1)}%"></i></span>${R(t)} ${n}`}function Fu({name:t,
short:e}){return`<span class="name" title="${Vt(t)}">${Vt(e)}</span>`}function aa({cat:t}){return Nu[t]??t}function Ot(t,e,n,o){let r=e==="name"||e==="cat";return{
title:t,data:e,...r?{}:{className:"number"},render:(s,a,i)=>a==="display"?o(i):n(i),searchable:r,orderSequence:["desc","asc"]}}function Le(t,e){return Ot(t,e,n=>n[e],
n=>v(n[e]))}var Bn=[Ot("Name","name",t=>`${t.short} ${t.name}`,Fu),Ot("Kind","cat",aa,t=>`<span class="kind">${Vt(aa(t))}</span>`),Ot("Count","count",t=>t.count,
t=>E(t.count)),Le("Total","total"),Le("Self","self"),Ot("Mean ± sd","mean",t=>t.mean,Iu),Le("Min","min"),Le("Max","max"),Ot("Share of self","share",t=>t.share,
Hu)];function ft(t){return Bn.findIndex(e=>e.data===t)}var ia=ft("share"),Re=[{width:1e3,columns:[ft("min"),ft("max")]},{width:760,columns:[ft("cat"),ft("total")]},
{width:600,columns:[ft("mean"),ft("count")]}];var ca=`
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
div.dt-container .dt-info { display: inline-block; }
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
`;var zu=[["All",null],["GPU",1],["CPU",0]];function ua(t,e,{DataTable:n,styleSheet:o,theme:r,onNames:s}){let a=t.shadowRoot??t.attachShadow({mode:"open"}),i=h("t\
able",{class:"display compact","aria-label":"Costs by name"});a.replaceChildren(h("style",{},o),h("style",{},ca),i),n.ext.errMode="throw";let c=ra(e),l=new Set(
c.device).size>1,f={rows:[],side:null,chosen:new Set,width:0,isStale:!1,isWhole:!1},u=new n(i,{...Du(),layout:{topStart:l?[()=>Bu(f,()=>la(u,f)),"info"]:"info",
topEnd:"search",bottomStart:"pageLength",bottomEnd:"paging"},rowCallback:(g,w)=>fa(g,w,f.chosen)});Uu(u,f,i,s);let d=Ku(f,()=>Un(u,f,t));a.append(d);let p=new ResizeObserver(
()=>Un(u,f,t));p.observe(t),Un(u,f,t);let m=g=>{t.classList.toggle("dark",g==="dark")};return m(r),{sum(g){f.rows=sa(e,c,g),f.isStale=!0},update(){f.isStale&&la(
u,f),f.isStale=!1},choose(g){f.chosen=g??new Set,u.rows({page:"current"}).every(function(){fa(this.node(),this.data(),f.chosen)})},setTheme:m,rows:()=>f.rows,destroy(){
p.disconnect(),u.destroy(),a.replaceChildren()}}}function Du(){return{columns:Bn,data:[],order:[[ia,"desc"]],pageLength:10,lengthMenu:[10,25,50,100,{label:"all",
value:-1}],language:{search:"",searchPlaceholder:"Filter names",info:"_START_–_END_ of _TOTAL_ names",infoEmpty:"no names",infoFiltered:"(of _MAX_)",lengthMenu:"\
_MENU_ a page",emptyTable:"Nothing is selected here",zeroRecords:"No name matches the filter"},autoWidth:!1,deferRender:!0}}function la(t,{rows:e,side:n}){t.clear().
rows.add(e.filter(o=>n===null||o.side===n)).draw()}function Bu(t,e){let n=h("div",{class:"sides",role:"group","aria-label":"Where the time went"});for(let[o,r]of zu){
let s=()=>{t.side=r;for(let a of n.children)a.setAttribute("aria-pressed",String(a.textContent===o));e()};n.append(h("button",{type:"button","aria-pressed":String(
r===null),onclick:s},o))}return n}function fa(t,e,n){let o=e.ids.some(r=>n.has(r));t.classList.toggle("chosen",o),t.setAttribute("aria-selected",String(o)),t.tabIndex=
0}function Uu(t,e,n,o){let r=s=>{let a=s.composedPath().find(Wu),i=a&&t.row(a).data();if(!i)return;let c=Gu(e.chosen,i.ids,s.ctrlKey||s.metaKey||s.shiftKey);o(c.
size?c:null)};n.addEventListener("click",r),n.addEventListener("keydown",s=>{let[a]=s.composedPath();s.key!=="Enter"&&s.key!==" "||!(a instanceof HTMLTableRowElement)||
(s.preventDefault(),r(s))})}function Wu(t){return t instanceof HTMLTableRowElement&&t.parentElement?.tagName==="TBODY"}function Gu(t,e,n){let o=e.every(a=>t.has(
a)),r=o&&t.size===e.length,s=new Set(n?t:[]);for(let a of e)n&&o?s.delete(a):(n||!r)&&s.add(a);return s}function Un(t,e,n){let o=e.isWhole?1/0:n.clientWidth;if(o===
0||o===e.width)return;e.width=o;let r=n.clientWidth<Re[0].width;n.setAttribute("data-view",r?e.isWhole?"whole":"narrow":"wide"),n.toggleAttribute("data-slim",o<
Re[2].width);for(let{width:s,columns:a}of Re)t.columns(a).visible(o>=s)}function Ku(t,e){let o=h("button",{type:"button",class:"columns","aria-pressed":"false",
onclick:()=>{t.isWhole=!t.isWhole,o.setAttribute("aria-pressed",String(t.isWhole)),e()}},"All columns");return o}async function da({source:t,parts:e,panels:n,isClosed:o}){let r=await zn(await t.races());if(o())return;let s=h("div",{class:"cudalens-races"}),{hasProfile:a,hasGraphs:i}=t.
facts;e.races.append(...a||i?[h("h3",{"aria-level":2},"Races")]:[],s),e.races.hidden=!1,n.races=qs(s,r,{onChoose:c=>n.timeline?.showRace(c.row)})}async function ha({
source:t,parts:e,panels:n,isClosed:o}){let r=await zn(await t.graphs());if(o())return;let s=h("div",{class:"cudalens-graphs"}),{hasProfile:a,hasRaces:i}=t.facts;
e.graphs.append(...a||i?[h("h3",{"aria-level":2},"CUDA graphs")]:[],s),e.graphs.hidden=!1,n.graphs=Qr(s,r)}async function Wn(t){let{source:e,parts:n}=t,{memoryMap:o,
memoryFirst:r}=e.facts,s=await e.memory();if(t.isClosed())return;let a=h("div",{class:"mm-host"}),i=h("div",{class:"cudalens-memory"},...o?[D(o)]:[]);n.memoryMap.
append(...r?[]:[h("h3",{"aria-level":2},"Memory")],a,i),n.memoryMap.hidden=!1,t.panels.memoryMap=await Gs(a,s,{theme:t.theme})}function pa({source:t,parts:e,store:n},o){
t.facts.findings&&(e.findings.append(D(t.facts.findings)),Gn(e.findings,"tbody tr[data-event]",r=>{let s=o.eventOf(Number(r.dataset.event));return s>=0&&n.set({
event:s,range:null,names:null},"findings"),s>=0}),e.findings.hidden=!1)}function ma({source:t,parts:e,panels:n}){t.facts.syncs&&(e.syncs.append(D(t.facts.syncs)),
Gn(e.syncs,"tbody tr",(o,r)=>(n.timeline?.showSync(r),!0)),e.syncs.hidden=!1)}function Gn(t,e,n){let o=_(t,e,HTMLElement);o.forEach((r,s)=>{let a=()=>{if(n(r,s))
for(let i of o)i.toggleAttribute("data-chosen",i===r)};r.tabIndex=0,r.addEventListener("click",a),r.addEventListener("keydown",i=>{i.key==="Enter"&&a()})})}function ga(t,e){
let{parts:n,panels:o,source:r,store:s}=t;return na(n.table,"Costs",[{key:"table",title:"Operators and kernels",fill:a=>a.append(n.tableHost)},{key:"flame",title:"\
Flame graph",fill(a){o.flame=Zr(a,e,{theme:t.theme,baseline:r.facts.baseline,onEvent:i=>s.set({event:i,range:null,names:null},"flame")}),o.flame.update(s.get())},
onShow:()=>o.flame?.shown()},...ju.flatMap(([a,i])=>{let c=r.facts[a];return c?[{key:a,title:i,fill:l=>Xu(t,e,l,a,c)}]:[]})])}var ju=[["lines","Lines"],["module\
s","Modules"],["steps","Steps"]];function Xu({store:t},e,n,o,r){let s=h("div",{class:`cudalens-${o}`},D(r));for(let a of s.querySelectorAll("details:first-child"))
a.setAttribute("open","");n.append(s),Gn(s,"tbody tr[data-event]",a=>{let i=e.eventOf(Number(a.dataset.event));return i>=0&&t.set({event:i,range:null,names:null},
o),i>=0})}async function wa(t,e){let{asset:n,versions:o}=t.source,[r,s]=await Promise.all([Dn("datatables.js",o.datatables,n),n("datatables.css").then(_e)]);t.isClosed()||
(t.panels.table=ua(t.parts.tableHost,e,{DataTable:r,styleSheet:new TextDecoder().decode(s),theme:t.theme,onNames:a=>t.store.set({names:a},"table")}))}function ba({
source:t,parts:e,panels:n,theme:o},r){if(!r.metrics.length)return;let s=h("div",{class:"cl-metrics-host"}),a=h("h3",{"aria-level":2},"GPU readings",h("span",{},
t.facts.metrics??""));e.metrics.replaceChildren(a,s),e.metrics.hidden=!1;let i=xa(r,r.metrics);n.metrics=Cr(s,r.metrics,r.header.metrics.gauges,{theme:o,view:i})}
async function ya(t,e){let{parts:n,panels:o,source:r,store:s}=t,a=Vu(e),i=h("h3",{"aria-level":2},"Memory");if(o.memoryMap||!a.length){n.memory.hidden=!0;return}
let c=h("div",{class:"cl-plot-host"});n.memory.replaceChildren(i,c);let l=await Dn("plotly.js",r.versions.plotly,r.asset);if(t.isClosed())return;let f=Tr(c,a,{Plotly:l,
theme:t.theme,view:xa(e,a),onRange:d=>s.set({range:d},"memory")});o.memory=f,await f.ready;let{range:u}=s.get();u&&f.setRange(u)}function Vu(t){return t.memory.
map(({label:e,ts:n,allocated:o})=>{let r=[...o.keys()].filter(s=>!Number.isNaN(o[s]));return{label:e,ts:Float64Array.from(r,s=>n[s]),values:Float64Array.from(r,
s=>o[s])}}).filter(e=>e.ts.length)}function xa(t,e){if(t.n)return Yt(dt(t,!0));let n=e.flatMap(({ts:o})=>[o[0],o[o.length-1]]);return[Math.min(...n),Math.max(...n)+
1]}function ka(t,e,{range:n,event:o,names:r}){let s=[`t=${va(e)}`];n&&s.push(`s=${va(n)}`),o!==null&&s.push(`e=${t.rowOf(o)}`);for(let a of[...r??[]].slice(0,20))s.
push(`n=${encodeURIComponent(t.header.names[a])}`);return`#${s.join("&")}`}function va([t,e]){return`${Math.round(t)}-${Math.round(e)}`.replace("--","-n").replace(
/^-/,"n")}function Aa(t,e){let n=new URLSearchParams(e.replace(/^#/,"")),o={},r=Ma(n.get("s"));r&&(o.range=r);let s=Number.parseInt(n.get("e")??"",10),a=Number.
isInteger(s)?t.eventOf(s):-1;a>=0&&(o.event=a);let c=n.getAll("n").map(l=>t.header.names.indexOf(l)).filter(l=>l>=0);return c.length&&(o.names=new Set(c)),{view:Ma(
n.get("t")),selection:o}}function Ma(t){let e=/^(n?\d{1,16})-(n?\d{1,16})$/.exec(t??"");if(!e)return null;let[n,o]=[e[1],e[2]].map(r=>Number(r.replace("n","-")));
return n<o?[n,o]:null}var qu=2e3;function Ta(t,e){let{range:n,event:o,names:r}=e;if(o!==null)return Yu(t,e);let s=[];if(n){let a=l=>String(BigInt(t.header.t0)+BigInt(l)),[i,c]=[Math.
floor(n[0]),Math.ceil(n[1])];s.push(`((e.ts < ${a(c)}) & (e.ts + e.dur > ${a(i)}) & (e.dur > 0) | (e.dur == 0) & e.ts.between(${a(Math.ceil(n[0]))}, ${a(Math.floor(
n[1]))}))`)}return r&&s.push(`e.name.isin(${Zu([...r].map(a=>t.header.names[a]))})`),s.length?`trace.events[lambda e: ${s.join(" & ")}]`:"trace.events"}function Yu(t,e){
let n=K(t,e),o=[];for(let r=0;r<t.n;r++)if(n?.[r]&&o.push(t.rowOf(r)),o.length>qu)return null;return`trace.events.iloc[[${o.sort((r,s)=>r-s).join(", ")}]]`}function Zu(t){
let e=n=>JSON.stringify(n).replace(/[\u007f-\uffff]/g,o=>`\\u${o.charCodeAt(0).toString(16).padStart(4,"0")}`);return`[${t.map(e).join(", ")}]`}function Sa(t,{event:e,names:n},o){let r=n??(e===null?null:new Set([t.name[e]]));if(r===null)return null;let s=e===null?null:t.header.lanes[t.lane[e]].kind,a=[];
for(let l=0;l<t.n;l++){let f=s===null||n!==null||t.header.lanes[t.lane[l]].kind===s;r.has(t.name[l])&&f&&a.push(l)}if(!a.length)return null;a.sort((l,f)=>t.start[l]-
t.start[f]||l-f);let i=e===null?-1:a.indexOf(e),c=i<0?Ju(t,a):(i+o+a.length)%a.length;return{event:a[c],ordinal:c+1,count:a.length}}function Ju({dur:t},e){return e.
reduce((n,o,r)=>t[o]>t[e[n]]?r:n,0)}function Oa(t,e,n,o){let r=n.get(),s=K(e,r);if(t.hidden=s===null,s===null)return;let a=0;for(let c=0;c<e.n;c++)a+=s[c];let i=o.link();t.replaceChildren(h("span",
{class:"cl-bar-count"},`${O(a,"event")} of ${E(e.n)} selected`),...ed(e,r).map(([c,l])=>nd(n,c,l)),...r.range?[h("span",{class:"cl-measure"},Qu(e,r.range))]:[],
...td(e,n),Ea("Copy pandas","Copy the expression that selects these rows",Ta(e,r)),...i===null?[]:[Ea("Copy link","Copy the address of what shows",i)],h("button",
{class:"cl-button cl-clear",type:"button",onclick:()=>n.clear("bar")},"Clear selection"))}function Qu(t,e){let{busy:n,idle:o,work:r,calls:s}=co(t,e),a=`${O(s,"C\
PU event")}`;if(!t.header.lanes.some(({kind:c,count:l})=>c==="device"&&l))return a;let i=R(100*n/(e[1]-e[0]));return`GPU busy ${v(n)} (${i}), idle ${v(o)}; ${O(
r,"GPU event")}, ${a}`}function td(t,e){let{event:n,names:o}=e.get();if(n===null&&o===null)return[];let r=a=>()=>{let i=Sa(t,e.get(),a);i&&e.set({event:i.event,
names:null,range:null},"bar")},s=(a,i,c)=>h("button",{class:"cl-button",type:"button",title:i,"aria-label":i,onclick:r(c)},a);return n===null?[s("Go to the long\
est","Select the longest event of this name",1)]:[s("‹ same name","Previous event of this name",-1),s("same name ›","Next event of this name",1)]}function Ea(t,e,n){
let s=h("button",{...{class:"cl-button cl-copy",type:"button",title:n===null?"More than 2,000 rows":e},disabled:n===null,"data-text":n,onclick:async()=>{if(n!==
null)try{await navigator.clipboard.writeText(n),s.textContent="Copied"}catch{s.replaceWith(h("code",{class:"cl-copy-text",tabindex:0},n))}}},t);return s}function ed(t,{
range:e,event:n,names:o}){let r=[];if(e){let[s,a]=e;r.push(["range",`${v(s)} – ${v(a)} (${v(a-s)})`])}if(n!==null&&r.push(["event",`within ${B(t.header,t.name[n])}`]),
o){let[s]=[...o].map(a=>B(t.header,a));r.push(["names",o.size===1?s:`${s} and ${o.size-1} more`])}return r}function nd(t,e,n){let o=()=>t.set({[e]:null},"bar");
return h("span",{class:"cl-chip",title:n},h("span",{},n),h("button",{type:"button","aria-label":`Stop selecting ${n}`,onclick:o},"×"))}function $a(t,e){let n=h("div",{class:"cl-table-host"}),o={verdict:h("p",{class:"cl-verdict"},...od(e.badge),...rd(e.verdict)),message:h("div",{class:"cl-messag\
e",role:"alert",hidden:!0}),status:h("p",{class:"cl-hint cl-status"},"Loading the timeline…"),races:Y("cl-races","Races"),graphs:Y("cl-graphs","CUDA graphs"),
findings:Y("cudalens-findings","Findings"),memoryMap:Y("cl-memory-map","Memory"),timeline:h("div",{class:"cl-timeline"}),metrics:Y("cl-metrics","Readings of the\
 GPUs"),syncs:Y("cudalens-syncs","Waits for the GPU"),bar:h("div",{class:"cl-bar",hidden:!0}),table:Y("cl-panel cl-table","Costs"),tableHost:n,details:Y("cl-pan\
el cl-details","Details of the selected event"),memory:Y("cl-panel cl-memory","Memory curve")};return t.replaceChildren(o.verdict,...sd(e.details),...ad(e.notes),
o.message,o.status,...e.graphsFirst?[o.graphs,o.races]:[o.races,o.graphs],...e.memoryFirst?[o.memoryMap]:[],o.timeline,o.bar,o.metrics,o.findings,o.syncs,h("div",
{class:"cl-columns"},o.table,o.details),o.memory,...e.memoryFirst?[]:[o.memoryMap]),o}function Y(t,e,...n){return h("section",{class:t,"aria-label":e,hidden:!0},
...n)}function od(t){return t?[h("span",{class:"cl-badge"},t)," "]:[]}function rd(t){let e=t.indexOf("; ");return e<0?[h("strong",{},t)]:[h("strong",{},t.slice(
0,e)),t.slice(e)]}function sd(t){return t?[h("details",{class:"cl-support"},h("summary",{},"more figures"),h("p",{},t))]:[]}function ad(t=[]){return t.length?[h(
"ul",{class:"cl-notes"},...t.map(e=>h("li",{},e)))]:[]}var id=120,cd=5e4;function _a(t,e){let n=qt();t.classList.add("cudalens"),t.dataset.theme=n,t.dataset.state="loading";let o={root:t,source:e,parts:$a(t,e.facts),
store:Nr(),panels:{},tabs:null,theme:n,data:null,isOpen:!0,isClosed:()=>!o.isOpen,following:void 0,tableMask:void 0,updating:[],cleanups:[ao(s=>Ca(o,s))]};return{
ready:ld(o).catch(s=>Pa(o,s)),get data(){return o.data},panels:o.panels,get tabs(){return o.tabs},selection:o.store,showStatus(s){o.parts.status.textContent=s},
setTheme:s=>Ca(o,s),destroy:()=>yd(o)}}async function ld(t){let{source:e}=t,{hasRaces:n,hasGraphs:o,hasProfile:r,memoryFirst:s,memoryAlone:a}=e.facts;if(n&&await ut(
t,"list of races",()=>da(t)),o&&await ut(t,"graph tree",()=>ha(t)),t.isClosed())return;if(s&&await ut(t,"memory map",()=>Wn(t)),bd(t),!r||a){await ud(t);return}
let i=await so(await e.payload());t.isClosed()||(t.data=i,await fd(t,i))}async function fd(t,e){let{parts:n,source:o,root:r}=t;o.onData?.(),n.status.remove(),t.
panels.timeline=wr(n.timeline,e,{theme:t.theme,onSelect:s=>t.store.set(s,"timeline"),onTime:s=>dd(t,[...s])}),ba(t,e),pa(t,e),ma(t),o.facts.memoryMap&&!o.facts.
memoryFirst&&await ut(t,"memory map",()=>Wn(t)),t.store.subscribe((s,a)=>hd(t,e,s,a)),t.tabs=ga(t,e),n.table.hidden=!1,n.memory.hidden=!1,await Kn(),r.dataset.state=
"painted",o.onPaint?.(),await Promise.all([ut(t,"table",async()=>{await wa(t,e),La(t,e,t.store.get()),Ra(t,t.store.get())}),ut(t,"memory curve",()=>ya(t,e)),ut(
t,"list of details",()=>e.detailsReady)]),t.isOpen&&o.hash&&gd(t,e,o.hash),t.isOpen&&(r.dataset.state="ready")}async function ud(t){t.parts.status.remove(),t.parts.
timeline.hidden=!0,t.source.onData?.(),await Kn(),t.source.onPaint?.(),t.isOpen&&t.root.dataset.state!=="failed"&&(t.root.dataset.state="ready")}function Kn(){return new Promise(
t=>{let e=setTimeout(t,250);requestAnimationFrame(()=>setTimeout(()=>{clearTimeout(e),t()}))})}async function ut(t,e,n){try{await n()}catch(o){t.isOpen&&Pa(t,o,
`The ${e} cannot be shown`)}}function dd(t,e){t.panels.metrics?.setView(e),clearTimeout(t.following),t.following=setTimeout(()=>t.isOpen&&t.panels.memory?.setView(
e),id)}function hd(t,e,n,o){let{timeline:r,memory:s,memoryMap:a,races:i}=t.panels,{range:c,event:l,names:f}=n;o!=="timeline"&&(r?.setRange(c?.[0]??null,c?.[1]),
r?.setNames(f),r?.select(l)),o!=="memory"&&s?.setRange(c),c&&a?.showStretch(c,e.header.t0),t.parts.details.hidden=l===null,yr(t.parts.details,e,l);let u=r?.raceOf(
l)??null;u!==null&&i?.choose(u),t.source.onSelect?.(wd(e,n));let d=[()=>K(e,n),()=>Oa(t.parts.bar,e,t.store,{link:()=>md(t,e)}),()=>La(t,e,n),()=>Ra(t,n),()=>t.
panels.flame?.update(n)];if(e.n<=cd)for(let p of d)p();else pd(t,d)}async function pd(t,e){t.updating=e;for(let n of e){if(await Kn(),!t.isOpen||t.updating!==e)
return;n()}}function md({source:t,panels:e,store:n},o){return!t.address||!e.timeline?null:t.address(ka(o,e.timeline.getView(),n.get()))}function gd({panels:t,store:e},n,o){
let{view:r,selection:s}=Aa(n,o);Object.keys(s).length&&e.set(s,"link"),r&&t.timeline?.zoomTo(...r)}function La(t,e,n){let{table:o}=t.panels,r=K(e,{...n,names:null});
r!==t.tableMask&&o?.sum(r),o&&(t.tableMask=r)}function Ra({panels:{table:t}},{names:e}){t?.update(),t?.choose(e)}function wd(t,{range:e,event:n,names:o}){return{
range:e&&[...e],event:n===null?null:t.rowOf(n),names:o&&[...o].map(r=>t.header.names[r])}}function bd(t){let e=t.root.clientWidth,n=new ResizeObserver(()=>{t.root.
clientWidth!==e&&(e=t.root.clientWidth,t.panels.memory?.resize(),t.panels.flame?.resize(),t.panels.metrics?.resize(),t.panels.memoryMap?.resize())});n.observe(t.
root),t.cleanups.push(()=>n.disconnect())}function Ca(t,e){t.theme=e,t.root.dataset.theme=e;for(let n of Object.values(t.panels))n.setTheme(e)}function Pa({root:t,
parts:e,source:n},o,r="The live view cannot be shown"){e.status.remove(),e.message.hidden=!1,e.message.append(h("p",{},`${r}: ${o instanceof Error?o.message:o}`)),
t.dataset.state="failed",n.onFail?.(),console.error(o)}function yd(t){t.isOpen=!1,clearTimeout(t.following);for(let e of Object.values(t.panels))e.destroy();for(let e of t.
cleanups.splice(0))e();t.root.replaceChildren()}function Na(){return`${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`}function jn(t){return t?_(document,`[data-cudalens-static="${CSS.escape(t)}"]`,HTMLElement):[]}function Xn(t,e){let n=jn(t).map(r=>r.closest(".jp-OutputArea-chi\
ld")??r),o=n.length>1?n[0].nextElementSibling:null;o instanceof HTMLElement&&o.nextElementSibling===n[1]&&n.push(o);for(let r of n)r.style.display=e?"none":""}var xd=1e3,vd="This view becomes interactive when the kernel is free.";function Md(t){let e=new Map,n=Na(),o=0,r=(s,a)=>{let i=e.get(s?.id);i&&(e.delete(s.id),s.
error?i.reject(new Error(s.error)):i.resolve(Ia(a[0])))};return t.on("msg:custom",r),{ask(s){o+=1;let a=`${n}-${o}`;return new Promise((i,c)=>{e.set(a,{resolve:i,
reject:c}),t.send({kind:"request",id:a,want:s})})},close(){t.off("msg:custom",r),e.clear()}}}function Ia(t){return t instanceof ArrayBuffer?new Uint8Array(t):new Uint8Array(
t.buffer,t.byteOffset,t.byteLength)}function kd({model:t,el:e}){let n=t.get("_picture"),o=Md(t),r=u=>{let d=t.get("_ready")[u];return d?Promise.resolve(Ia(d)):o.
ask(u)},s=h("div",{}),a=h("p",{class:"cl-live-note",role:"status",hidden:!0},vd),i=h("div",{class:"cudalens cl-callback-errors",role:"alert"});e.classList.add("\
cudalens-live"),e.replaceChildren(a,s,i),s.hidden=jn(n).length>0;let c=setTimeout(()=>{a.hidden=!1,l.showStatus("")},xd),l=_a(s,{facts:t.get("_facts"),versions:t.
get("_versions"),payload:()=>r("payload"),races:()=>r("races"),graphs:()=>r("graphs"),memory:()=>r("memory"),asset:u=>o.ask(u),onData(){clearTimeout(c),a.hidden=
!0,s.hidden=!1,Xn(n,!0)},onFail(){clearTimeout(c),a.hidden=!0,s.hidden=!1},onSelect(u){t.set("_selection",u),t.save_changes()}}),f=()=>{i.dataset.theme=s.dataset.
theme,i.replaceChildren(...t.get("_errors").map(u=>h("pre",{class:"cl-traceback"},u)))};return t.on("change:_errors",f),f(),()=>{clearTimeout(c),t.off("change:_\
errors",f),o.close(),l.destroy(),Xn(n,!1)}}var ew={render:kd};export{ew as default};
