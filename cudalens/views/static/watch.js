/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function He(t){let o=new Blob([t]).stream().pipeThrough(new DecompressionStream("deflate"));return new Uint8Array(await new Response(o).arrayBuffer())}function kt(t){
return new Error(`cudalens payload: ${t}. Save the trace again with the same version of cudalens.`)}async function jt(t){if(t.byteLength<12||String.fromCharCode(
...t.subarray(0,4))!=="CLP1")throw kt(`found ${t.byteLength} bytes that do not begin with CLP1`);let o=new DataView(t.buffer,t.byteOffset,t.byteLength),e=o.getUint32(
4,!0)===1,n=([a,c])=>{let l=a+c;if(l>t.byteLength)throw kt(`it ends at byte ${t.byteLength}, ${l} expected`);let f=t.subarray(a,l);return e?He(f):f},r=o.getUint32(
8,!0),s=JSON.parse(new TextDecoder().decode(await n([12,r])));if(s.version!==1)throw kt(`found version ${s.version}, expected 1`);return{header:s,places:$e(s,12+
r),read:n}}function $e(t,o){let e=new Map,n=o;for(let[r,s]of Object.entries(t.columns)){let a=[];for(let c of"text"in s?[s.text]:s.planes)a.push(c<0?c:[n,c]),c>
0&&(n+=c);e.set(r,a)}return e}async function Zt({header:t,places:o,read:e},n){let{n:r,signed:s}=t.columns[n],a=o.get(n)??[],c=await Promise.all(a.map(l=>typeof l==
"number"?-1-l:e(l)));return{n:r,signed:s,planes:c}}async function H(t,o){let{n:e,signed:n,planes:r}=await Zt(t,o);if(r.length>4||n&&r.length===4)return Pe(r,e,n);
let s=new Uint32Array(e);if(r.forEach((c,l)=>{if(typeof c=="number"){if(c)for(let f=0;f<e;f++)s[f]|=c<<8*l}else if(l===0)for(let f=0;f<e;f++)s[f]=c[f];else for(let f=0;f<
e;f++)s[f]|=c[f]<<8*l}),!n)return s;let a=new Int32Array(s.buffer);for(let c=0;c<e;c++)a[c]=s[c]>>>1^-(s[c]&1);return a}function Pe(t,o,e){let n=new Float64Array(
o),r=(s,a)=>{let c=t[s]??0;return typeof c=="number"?c:c[a]};for(let s=0;s<o;s++){let a=(r(0,s)|r(1,s)<<8|r(2,s)<<16|r(3,s)<<24)>>>0,c=(r(4,s)|r(5,s)<<8|r(6,s)<<
16|r(7,s)<<24)>>>0,l=a&1,f=(a>>>1|(c&1)<<31)>>>0;if(!e)n[s]=c*4294967296+a;else{let u=(c>>>1)*4294967296+f;n[s]=l?-u-1:u}}return n}async function Jt(t,o){let{n:e,
signed:n,planes:r}=await Zt(t,o),s=new BigUint64Array(e),a=new Uint8Array(s.buffer);if(r.forEach((c,l)=>{for(let f=0;f<e;f++)a[8*f+l]=typeof c=="number"?c:c[f]}),
n)for(let c=0;c<e;c++)s[c]=s[c]>>1n^BigInt.asUintN(64,-(s[c]&1n));return s}async function ot({places:t,read:o},e){let[n]=t.get(e);return JSON.parse(new TextDecoder().
decode(await o(n)))}async function Qt(t){let{devices:o,actions:e}=t.header.memory,n=["ts","device","action","bytes","allocated_bytes","reserved_bytes","event"],r=await Promise.all(
n.map(d=>H(t,`mem.${d}`))),[s,a,c,l,f,u,i]=r.map(d=>Float64Array.from(d));for(let d=1;d<s.length;d++)s[d]+=s[d-1],i[d]+=i[d-1];for(let d of[f,u])ze(d,a,o.length);
return o.map((d,h)=>{let g=[...a.keys()].filter(w=>a[w]===h),p=w=>Float64Array.from(g,m=>w[m]);return{label:d,actions:e,ts:p(s),bytes:p(l),allocated:p(f),reserved:p(
u),action:p(c),event:p(i)}})}function ze(t,o,e){let n=new Float64Array(e);for(let r=0;r<t.length;r++){n[o[r]]+=t[r];let s=n[o[r]];t[r]=s===0?Number.NaN:s-1}}async function to(t){
let{devices:o,gauges:e,reasons:n}=t.header.metrics;return Promise.all(o.map((r,s)=>Ne(t,e,{label:r,k:s,reasons:n})))}async function Ne(t,o,{label:e,k:n,reasons:r}){
let s=["ts","slowed_by",...o.map(({column:i})=>i)],[a,c,...l]=await Promise.all(s.map(i=>H(t,`met.${n}.${i}`))),f=Float64Array.from(a);for(let i=1;i<f.length;i++)
f[i]+=f[i-1];let u=o.map(({scale:i},d)=>Float64Array.from(l[d],h=>h===0?Number.NaN:(h-1)/i));return{label:e,ts:f,slowed:c,reasons:r,values:Object.fromEntries(o.
map(({column:i},d)=>[i,u[d]]))}}async function oo(t,o){for(let{name:e,coding:n}of t.header.details)o.set(e,await(n==="dictionary"?Ce(t,e):Fe(t,e)))}async function Ce(t,o){
let[e,n]=await Promise.all([H(t,`${o}.codes`),ot(t,`${o}.values`)]);return r=>e[r]?n[e[r]-1]:null}async function Fe(t,o){let[e,n]=await Promise.all([H(t,`${o}.k\
nown`),Jt(t,`${o}.steps`)]);for(let s=1;s<n.length;s++)n[s]+=n[s-1];let r=new Uint32Array(e.length);for(let s=0,a=0;s<e.length;s++)r[s]=e[s]?++a:0;return s=>r[s]?
String(BigInt.asIntN(64,n[r[s]-1])):null}var $={instant:1,folded:2,outside:4,launched:8,waiting:16};function eo(t,o,e,n,r){let s=new Float64Array(o),a=new Float64Array(o),c=[],l=[],f=()=>{let i=c.pop(),
d=l[c.length+1],h=(d<0?s[i]:d)+r[i];a[i]=h-s[i],l[c.length]=h},u=0;for(let i of t){l[0]=0;for(let d=u+i.count;u<d;u++){for(let p=e[u];p>0;p--)f();let h=c.length,
g=l[h];s[u]=(g<0?s[c[h-1]]:g)+n[u],c.push(u),l[h+1]=-1}for(;c.length;)f()}return{start:s,dur:a}}function no({n:t,start:o,dur:e,flags:n,header:r}){let s=e.slice(),
a=new Int32Array(t).fill(-1),c=new Uint16Array(t),l=new Int32Array(t+1),f=0;for(let u of r.lanes){let i=f+u.count;if(u.kind==="device"){f=i;continue}let d=0;for(;f<
i;f++){if(n[f]&$.outside)continue;let h=Math.max(o[f]+e[f],o[f]+1);for(;d&&o[l[d-1]]+e[l[d-1]]<h;)d--;d&&(a[f]=l[d-1],s[a[f]]-=e[f],c[f]=d),l[d++]=f}}return{own:s,
parent:a,depth:c}}function ro(t,o,e,n,r){let s=new Int32Array(t).fill(-1),a=new Set(n),c=[];for(let l=0;l<t;l++)a.has(e[l])&&c.push(l);for(let l=0,f=0,u=-1;l<t;l++)
o[l]&$.launched&&(u+=r[f++]+1,s[l]=c[u]);return s}function so({start:t,dur:o,header:e,n},r,s){let a=Ue(e.lanes),c=e.first_row,l=new Map,f=new Map;for(let d=0,h=0;d<r.length;d++)h+=r[d],l.set(h,h+s[d]),f.set(h+s[d],
h);let u=d=>a.reduce((h,{from:g,to:p})=>h+Tt(g,p,w=>t[w]>=d)-g,0),i=d=>{let h=De(d,t,a,u),g=[];for(let{from:p,to:w}of a)for(let m=Tt(p,w,y=>t[y]>=h);m<w&&t[m]===
h;m++)g.push(m);return g.sort((p,w)=>o[w]-o[p])[d-u(h)]};return{rowOf(d){let h=a.findIndex(({to:p})=>d<p),g=d-a[h].from;return a.forEach(({from:p,to:w},m)=>{if(m===
h)return;g+=Tt(p,w,k=>t[k]>t[d]||t[k]===t[d]&&(m<h?o[k]<o[d]:o[k]<=o[d]))-p}),c+(l.get(g)??g)},eventOf(d){let h=d-c;return Number.isInteger(h)&&h>=0&&h<n?i(f.get(
h)??h):-1}}}function Ue(t){let o=0;return t.map(({count:e})=>(o+=e,{from:o-e,to:o}))}function Tt(t,o,e){let[n,r]=[t,o];for(;n<r;){let s=n+r>>1;e(s)?r=s:n=s+1}return n}
function De(t,o,e,n){let r=e.filter(({from:c,to:l})=>l>c),s=Math.min(...r.map(({from:c})=>o[c])),a=Math.max(...r.map(({to:c})=>o[c-1]))+1;for(;a-s>1;){let c=Math.
floor((s+a)/2);n(c)<=t?s=c:a=c}return s}async function co(t){let o=await jt(t),[e,n]=await Promise.all([Be(o),ot(o,"names")]),r={...o.header,names:n},{n:s,lanes:a}=r,c=Uint8Array.from(e.flags),l={header:r,
n:s,flags:c,...eo(a,s,e.closed,e.gap,e.tail)},{own:f,parent:u,depth:i}=no(l);Ke(f,e.self_at,e.self_off);let d=await Qt(o),h=await to(o),g=new Map,p=new Promise(
w=>setTimeout(w,0)).then(()=>oo(o,g));return p.catch(()=>{}),{...l,...Ge(r,e),lane:We(a,s),self:f,parent:u,depth:i,launch:ro(s,c,e.kind,e.launchers,e.launch),...so(
l,e.row_at,e.row_off),memory:d,metrics:h,detail:w=>Object.fromEntries([...g].map(([m,y])=>[m,y(w)])),detailOf:w=>g.get(w)??(()=>null),detailsReady:p}}var ao=["c\
losed","gap","tail","kind","kind_name","kind_cat","flags","launch","launchers","self_at","self_off","row_at","row_off"];async function Be(t){let o=await Promise.
all(ao.map(e=>H(t,e)));return Object.fromEntries(ao.map((e,n)=>[e,o[n]]))}function Ge({n:t,cats:o},{kind:e,kind_name:n,kind_cat:r}){let s=new Uint32Array(t),a=o.
length>256?new Uint16Array(t):new Uint8Array(t);for(let c=0;c<t;c++)s[c]=n[e[c]],a[c]=r[e[c]];return{name:s,cat:a}}function We(t,o){let e=t.length>65536?new Uint32Array(
o):new Uint16Array(o),n=0;return t.forEach(({count:r},s)=>{e.fill(s,n,n+r),n+=r}),e}function Ke(t,o,e){let n=0;for(let r=0;r<o.length;r++)n+=o[r],t[n]+=e[r]}var lo="http://www.w3.org/2000/svg";function x(t,o={},...e){let n=document.createElement(t);for(let[r,s]of Object.entries(o))s==null||s===!1||(typeof s=="functi\
on"?n.addEventListener("click",s):n.setAttribute(r,s===!0?"":String(s)));return n.append(...e.filter(r=>r!=null)),n}function P(t,o){let e=t.getContext("2d",o);if(e===null)throw new Error("this browser cannot draw on a canvas");return e}function W(t,o,e){return[...t.querySelectorAll(
o)].filter(n=>n instanceof e)}function fo(t,o,e,n=0){if(t.measureText(o).width<=e)return o;for(let r=Math.min(o.length-1,Math.floor(e/3));r>2;r--){let s=Math.floor(
r*n),a=`${o.slice(0,r-s)}\u2026${o.slice(o.length-s)}`;if(t.measureText(a).width<=e)return a}return""}var Ve=new Set(["article","b","code","dd","details","div","dl","dt","h4","li","ol","p","pre","span","strong","summary","table","tbody","td","th","thead","tr","u\
l"]),Xe=new Set(["svg","title","rect","path","text"]),Ye=new Set(["class","colspan","scope","role","tabindex","open","title","aria-hidden","aria-label","viewBox",
"width","height","preserveAspectRatio","x","y","rx","d","fill","fill-opacity","stroke","stroke-width","stroke-opacity","stroke-dasharray","opacity","data-event",
"data-depth","data-label","data-wide","font-family","font-size","font-weight","text-anchor"]);function qe(t){return typeof t=="string"?document.createTextNode(t):
St(t)}function St([t,o,...e]){let n=Xe.has(t);if(!n&&!Ve.has(t))throw new Error(`cudalens markup: the element ${t} is not known here`);let r=n?document.createElementNS(
lo,t):document.createElement(t);for(let[s,a]of Object.entries(o))Ye.has(s)&&r.setAttribute(s,a);return t==="h4"&&r.setAttribute("aria-level","3"),r.append(...e.
map(qe)),r}function uo(){return`${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`}function K(){if(matchMedia("print").matches)return"light";let{jpThemeLight:t,vscodeThemeKind:o}=document.body.dataset;if(t!==void 0)return t==="false"?"dark":"l\
ight";if(o!==void 0)return o.includes("light")?"light":"dark";let e=document.documentElement.dataset.theme;return e==="dark"||e==="light"?e:matchMedia("(prefers\
-color-scheme: dark)").matches?"dark":"light"}function io(t){let o=K(),e=()=>{let a=K();a!==o&&(o=a,t(a))},n=new MutationObserver(e),r={attributes:!0,attributeFilter:[
"data-jp-theme-light","data-vscode-theme-kind","data-theme"]};n.observe(document.body,r),n.observe(document.documentElement,r);let s=[matchMedia("(prefers-color\
-scheme: dark)"),matchMedia("print")];for(let a of s)a.addEventListener("change",e);return()=>{n.disconnect();for(let a of s)a.removeEventListener("change",e)}}function je(t){return t?W(document,`[data-cudalens-static="${CSS.escape(t)}"]`,HTMLElement):[]}function Rt(t,o){let e=je(t).map(r=>r.closest(".jp-OutputArea-chi\
ld")??r),n=e.length>1?e[0].nextElementSibling:null;n instanceof HTMLElement&&n.nextElementSibling===e[1]&&e.push(n);for(let r of e)r.style.display=o?"none":""}function ho({start:t,dur:o},e,n){let[r,s]=t[e]<=t[n]?[e,n]:[n,e],a=t[r]+o[r];return a<t[s]?[a,t[s]]:[t[r],Math.max(t[s],t[r]+1)]}function Ze(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var Je=[[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]],Jr=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"K\
iB"]];function S(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${S(-t)}`;if(t>=1195e8){let o=Math.round(t/1e9);return`${Math.floor(o/60)} min ${o%60} \
s`}for(let[o,e]of Je)if(t>=.9995*o)return`${Ze(t/o)} ${e}`;return t>=.9995||t===0?`${t.toFixed(0)} ns`:`${Number(t.toPrecision(2))} ns`}function et(t){return t.toLocaleString("en-US")}var Qe=`
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
`,po=Symbol.for("cudalens.timeline.style");function go(t){let o=t.getRootNode(),e=o instanceof ShadowRoot?o:document;if(e[po])return;let n=new CSSStyleSheet;n.replaceSync(
Qe),e[po]=n,e.adoptedStyleSheets=[...e.adoptedStyleSheets,n]}function wo({style:t},o){let{bg:e,text:n,muted:r,line:s,lineSoft:a,accent:c,tip:l,field:f}=o;for(let[
u,i]of Object.entries({bg:e,text:n,muted:r,line:s,soft:a,accent:c,tip:l,field:f}))t.setProperty(`--timeline-${u}`,i);t.setProperty("--timeline-tip-text",o.tipText),
t.setProperty("color-scheme",e<"#8"?"dark":"light")}var tn="W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, and Enter ag\
ain goes to the launch or the kernel. F zooms to the selection, 0 shows the whole run, B goes back to the window before, slash searches, C folds a lane, P pins \
it, Escape goes back, question mark lists all keys.",on=[["wheel","zoom, after a click"],["Ctrl+wheel","zoom"],["drag","pan"],["Shift+drag","select time"],["W A\
 S D","move"],["\u2190 \u2192","next event"],["Enter","launch or kernel"],["F","zoom to selection"],["0","whole run"],["B","back"],["/","search"],["?","all keys"]],
en=[["click","details of an event; arrow keys then go to its neighbours"],["double-click, F or Z","zoom to the event or the selected time; without one, show the\
 whole run"],["0","show the whole run"],["B or Backspace","back to the window before the last move (with Shift: forward)"],["\u2190 \u2192","next event of the l\
ane, or move the window"],["\u2191 \u2193","the caller or a call within, or the next lane"],["Enter","select an event; on a selected one, go to its launch or it\
s kernel"],["L","go to the launch or the kernel"],["W S, + \u2212","zoom in and out at the pointer"],["A D","move left and right"],["Ctrl+wheel","zoom at any ti\
me; after a click the wheel alone does"],["drag","move; on the ruler or with Shift, select time"],["Shift+click","select the time between two events"],["/ then \
N","search names, next match (Shift+N: previous)"],["C, P","fold a lane, pin it on top"],["Home, End","beginning and end of the run"],["Escape","clear the searc\
h, then the selection"]];function mo(t){go(t);let o=nn(),e=x("canvas",{class:"cltl-canvas",tabindex:"0",role:"application","aria-roledescription":"timeline","ar\
ia-label":"Timeline of the trace"}),n=x("div",{class:"cltl-stage"},e),r=x("div",{class:"cltl-frame"},n),s=x("div",{class:"cltl-tip",hidden:!0,"aria-hidden":"tru\
e"}),a=x("div",{class:"cltl-spoken","aria-live":"polite"}),c=x("div",{class:"cltl-spoken",id:`cltl-${Math.random().toString(36).slice(2)}`},tn);e.setAttribute("\
aria-describedby",c.id);let l=x("div",{class:"cltl-lanes",hidden:!0}),f=x("dl",{class:"cltl-keys",hidden:!0,"aria-label":"Keys"},...en.flatMap(([d,h])=>[x("dt",
{},d),x("dd",{},h)])),i=x("div",{class:"cltl",role:"group","aria-label":"Stream timeline"},o.tools,l,f,r,rn(),s,a,c);for(let d of i.querySelectorAll("canvas, in\
put, button"))d.setAttribute("data-lm-suppress-shortcuts","true");return t.append(i),{...o,canvas:e,stage:n,frame:r,lanes:l,keys:f,tip:s,spoken:a,host:i}}function nn(){
let t=(g,p,w)=>x("button",{type:"button","aria-label":g,title:w},p),o=(...g)=>x("span",{class:"cltl-group"},...g),e=x("input",{class:"cltl-search",type:"search",
placeholder:"Search names  ( / )","aria-label":"Search event names",autocomplete:"off",spellcheck:"false"}),n=x("span",{class:"cltl-matches",role:"status"}),r=t(
"Previous match","\u2039","Previous match (Shift+Enter)"),s=t("Next match","\u203A","Next match (Enter)"),a=t("Zoom in","+","Zoom in (W)"),c=t("Zoom out","\u2212",
"Zoom out (S)"),l=t("Fit the whole trace","Fit","Show the whole trace (0)"),f=t("Lanes","Lanes","Pin, move, fold and filter lanes");f.setAttribute("aria-expande\
d","false");let u=t("All keys","?","List the keys (?)"),i=t("PNG picture of the lanes","PNG","Save the lanes as they show, as PNG"),d=x("ul",{class:"cltl-legend",
"aria-label":"Colours"}),h=x("div",{class:"cltl-tools",role:"toolbar","aria-label":"Timeline"},o(e,r,s,n),o(c,a,l,f,i,u),d);return{search:e,matches:n,previous:r,
next:s,zoomIn:a,zoomOut:c,fit:l,lanesButton:f,picture:i,keysButton:u,legend:d,tools:h}}function It({keys:t}){t.hidden=!t.hidden}function rn(){let t=on.flatMap(([
o,e])=>[x("span",{},x("kbd",{},o),` ${e}`)," "]);return x("div",{class:"cltl-hint","aria-hidden":"true"},...t)}function xo(t,o){t.legend.replaceChildren(...o.map(
([e,n])=>{let r=x("i",{"aria-hidden":"true"});return r.style.background=n,x("li",{},r,e)}))}function yo(t,o,e,n){let[r,...s]=o;t.tip.replaceChildren(x("b",{},r),
...s.map(f=>x("div",{},f))),t.tip.hidden=!1;let{offsetWidth:a,offsetHeight:c}=t.tip,l=t.host.clientWidth;t.tip.style.left=`${Math.max(0,e+14+a>l?e-a-10:e+14)}px`,
t.tip.style.top=`${n+18+c>t.host.clientHeight?n-c-8:n+18}px`}var E=18,V=24,v=26,b=V+v,_t=4,sn=20;function nt(t,o=!1){let e=1/0,n=-1/0,r=t.header.cats.map(s=>s==="Trace"||s==="overhead");for(let s=0;s<t.n;s++){if(o&&(r[t.cat[s]]||
t.flags[s]&$.instant))continue;t.start[s]<e&&(e=t.start[s]);let a=t.start[s]+t.dur[s];a>n&&(n=a)}return e===1/0?o?nt(t):[0,1e3]:[e,Math.max(n,e+1)]}function Lt([
t,o],e){let n=(e[1]-e[0])*1.04,r=Math.min(Math.max(o-t,Math.min(sn,n)),n),s=(t+o)/2,a=e[0]-r*.9,c=e[1]-r*.1,l=r>=n?(e[0]+e[1]-n)/2:Math.min(Math.max(s-r/2,a),c);
return[l,l+r]}function bo(t){let o=(t[1]-t[0])*.02;return[t[0]-o,t[1]+o]}function vo(t,o,e,n=110){let r=(o-t)*n/Math.max(e,1),s=10**Math.floor(Math.log10(r)),a=Math.
max(1,([1,2,5,10].find(l=>l*s>=r*.999)??10)*s),c=[];for(let l=Math.ceil(t/a);l*a<=o&&c.length<200;l++)c.push({t:l*a,text:cn(l*a,a)});return{ticks:c,step:a}}var an=[
[1e9,"s"],[1e6,"ms"],[1e3,"\xB5s"]];function cn(t,o){let[e,n]=an.find(([s])=>Math.abs(t)>=s)??[1,"ns"],r=Math.max(0,Math.ceil(Math.log10(e/o)-1e-9));return t===
0?"0":`${(t/e).toFixed(r)} ${n}`}function rt(t,o,e,n=0){let r=new Float64Array(t.length),s=new Float64Array(t.length),a=new Uint16Array(t.length),c=0;for(let l of e)
a[l]=o.has(l)?1:t[l],r[l]=c,c+=a[l]*E+2*_t,s[l]=c;return{order:e,tops:r,ends:s,shown:a,pinned:n?s[e[n-1]]:0,total:c}}function z(t,o){let{order:e,tops:n}=t;if(o<
0||o>=t.total)return-1;let r=0,s=e.length-1;for(;r<s;){let a=r+s+1>>1;n[e[a]]<=o?r=a:s=a-1}return e[r]}function st(t,o,e){return t.tops[o]+_t+e*E}function Mo(t,o){
let e=z(t,o);if(e<0)return null;let n=Math.floor((o-t.tops[e]-_t)/E);return n>=0&&n<t.shown[e]?{lane:e,row:n}:null}var ln=.6;function at({size:t,layout:o}){return o.pinned<=ln*(t.height-b)?o.pinned:0}function ct(t,o){return o-b<at(t)?o-b:o-b+t.scroll}function O(t){let{size:o,
view:e,layout:n}=t,r=o.width-o.gutter,s=Math.max(1,Math.round(r*o.ratio)),a=(e[1]-e[0])/s,c=Math.round(e[0]/a)*a,l=s/o.ratio/(e[1]-e[0]),f=at(t),u=h=>o.gutter+(h-
c)*l,i=(h,g)=>b+g-(n.tops[h]<f?0:t.scroll),d=(h,g)=>i(h,st(n,h,g));return{width:r,pixels:s,w:a,t0:c,t1:c+s*a,scale:l,parts:fn(t,f),x:u,y:d,down:i}}function fn({
layout:t,size:o,scroll:e},n){let{order:r,tops:s}=t,a=Math.min(e,Math.max(0,t.total-1))+n,c=e+o.height-b,l=Math.max(0,r.indexOf(z(t,a))),f=z(t,c),i={lanes:r.slice(
l,f<0?r.length:r.indexOf(f)+1).filter(h=>s[h]>=n),top:b+n,bottom:o.height};if(!n)return[i];let d={lanes:r.filter(h=>s[h]<n),top:b,bottom:b+n};return[i,d]}function U(t,o,e){
let n=t.data.lane[e],r=t.rows.row[e];return r>=t.layout.shown[n]?null:{x:o.x(t.data.start[e]),y:Math.round(o.y(n,r)),width:Math.max(1,t.data.dur[e]*o.scale)}}var Ao={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#\
d55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_\
runtime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var T=Ao;function ko(t,o){let{groups:e}=T,n=e.findIndex(s=>s.cats.includes(t));return n<0?e.length-1:e[n].key==="kernel"&&T.comm_prefixes.some(s=>o.startsWith(s))?
e.findIndex(s=>s.key==="comm"):n}function To(t){let o=2166136261;for(let e=0;e<t.length;e++)o=Math.imul(o^t.charCodeAt(e),16777619);return o>>>0}function Eo(t){
let[o,e,n]=[1,3,5].map(r=>Number.parseInt(t.slice(r,r+2),16));return[o,e,n]}function dn(t,o,e){let n=Eo(o),[r,s,a]=Eo(t).map((c,l)=>Math.floor(c+(n[l]-c)*e+.5));
return[r,s,a]}function hn(t){let[o,e,n]=t.map(r=>r/255).map(r=>r<=.04045?r/12.92:((r+.055)/1.055)**2.4);return .2126*o+.7152*e+.0722*n}var D=T.light.shades.length;
function So(t){let o=T[t].shades,e=T.groups.flatMap(n=>o.map(([r,s])=>dn(n.color,r,s)));return{pixels:Uint32Array.from(e,([n,r,s])=>(s<<16|r<<8|n)>>>0),css:e.map(
n=>`rgb(${n.join(",")})`),ink:e.map(n=>(hn(n)+.05)**2>.05*1.05?"#000000":"#ffffff")}}var R=16,lt=512,X=65535,pn=.02,Ro=88,gn=255<<24>>>0,wn=150<<24>>>0;function _o(t){let{start:o,dur:e,n,header:r}=t,s=new Uint16Array(n),a=[],c=new Float64Array(lt),
l=new Int32Array(lt),f=new Map,u=0;for(let i of r.lanes){let d=-1,h=0;c.fill(-1/0);let g=u+i.enclosing;for(let p=u+i.count;u<p;u++){if(u<g&&u>g-i.enclosing){s[u]=
X;continue}let w=o[u],m=w+e[u];for(;d>=0&&c[d]<=w;)d--;let y=d;for(;y>=0&&!(c[y]>w&&c[y]>=m);)y--;for(y++;y<lt&&c[y]>w;){if(o[l[y]]<w&&c[y]-w<pn*(m-w)){f.set(l[y],
w);break}y++}if(y>=lt){s[u]=X;continue}s[u]=y,c[y]=m,l[y]=u,m>w&&y>d&&(d=y),y>=h&&(h=y+1)}a.push(Math.max(h,1))}return{row:s,heights:a,ends:f}}function ft(t,o,e){
let n=e;for(;o.row[n]===X&&n>0&&t.lane[n-1]===t.lane[e];)n--;return o.row[e]===X&&o.row[n]===0?n:e}function Lo(t){let{names:o,cats:e}=t.header,n=new Map,r=new Uint8Array(
t.n),s=new Int8Array(o.length).fill(-1),a=-1,c=0;for(let l=0;l<t.n;l++){let f=t.name[l]*65536+t.cat[l];if(f!==a){let u=n.get(f);if(u===void 0){let i=o[t.name[l]];
s[t.name[l]]<0&&(s[t.name[l]]=To(i)%D),u=ko(e[t.cat[l]],i)*D+s[t.name[l]],n.set(f,u)}a=f,c=u}r[l]=c}return r}function ut(t,o,e,n=null){let{start:r,dur:s,lane:a,
n:c}=t,l=p=>o.row[p]===X||n!==null&&!n[p],f=Io(o.heights),u=new Uint32Array(f[o.heights.length]);for(let p=0;p<c;p++)l(p)||u[f[a[p]]+o.row[p]]++;let i=Io(u),d=i[i.
length-1],h={first:i,laneRow:f,at:new Uint32Array(d),s:new Float64Array(d),e:new Float64Array(d),sum:new Float64Array(d+1),tone:new Uint8Array(d)},g=i.slice();for(let p=0;p<
c;p++){if(l(p))continue;let w=g[f[a[p]]+o.row[p]]++;h.at[w]=p,h.s[w]=r[p],h.e[w]=r[p]+s[p],h.tone[w]=e[p]}for(let[p,w]of o.ends)l(p)||(h.e[mn(h,f[a[p]]+o.row[p],
p)]=w);for(let p=0;p<d;p++)h.sum[p+1]=h.sum[p]+h.e[p]-h.s[p];return{...h,maxima:xn(h.s,h.e)}}function mn({first:t,at:o},e,n){let r=t[e],s=t[e+1];for(;r<s;){let a=r+
s>>1;o[a]<n?r=a+1:s=a}return r}function Io(t){let o=new Uint32Array(t.length+1);for(let e=0;e<t.length;e++)o[e+1]=o[e]+t[e];return o}function xn(t,o){let e=[],n=null;
for(let r=t.length;r>R;){let s=Math.ceil(r/R),a=new Uint32Array(s);for(let c=0;c<s;c++){let l=-1,f=-1;for(let u=c*R;u<Math.min(r,(c+1)*R);u++){let i=n===null?u:
n[u];o[i]-t[i]>f&&(f=o[i]-t[i],l=i)}a[c]=l}e.push(a),n=a,r=s}return e}function Oo(t,o,e){let{s:n,e:r,maxima:s}=t,a=o,c=r[o]-n[o],l=i=>{let d=r[i]-n[i];(d>c||d===
c&&i<a)&&(c=d,a=i)},f=o,u=e;for(let i=-1;f<u;i++){let d=i<0?null:s[i],h=i+1>=s.length||u-f<=R;for(;f<u&&(h||f%R);)l(d===null?f++:d[f++]);for(;u>f&&u%R;)l(d===null?
--u:d[--u]);f/=R,u/=R}return a}function it(t,o,e,n){let r=1,s=o;for(;s+r<e&&t[s+r]<n;)s+=r,r*=2;let a=Math.min(e,s+r);for(;s<a;){let c=s+a>>1;t[c]<n?s=c+1:a=c}return s}
function I(t,o,e){let n=t.first[o],r=it(t.s,n,t.first[o+1],e);return r>n&&t.e[r-1]>e?r-1:r}function Ho(t,o,{t0:e,w:n,out:r,base:s,width:a,minWidth:c},l,f){let{s:u,
e:i,sum:d,tone:h}=t,g=t.first[o+1],p=1/n,w=e+a*n,m=I(t,o,e),y=0;for(;m<g&&u[m]<w&&y<a;){let k=(u[m]-e)*p;k>y&&(y=Math.floor(k));let F=e+y*n;if(i[m]<=F&&u[m]<F){
m++;continue}if(u[m]<=F&&i[m]>=F+n){let Q=(i[m]-e)*p,tt=Math.min(a,Math.max(y+1,Math.floor(Q)));r.fill((l[h[m]]|gn)>>>0,s+y,s+tt),Q-k>=c&&f(m,k,Q),Q-k>=4&&tt<a&&
(r[s+tt-1]=(l[h[m]]|wn)>>>0),y=tt,i[m]<=e+y*n&&m++;continue}let Et=F+n,L=it(u,m,g,Et);if(L===m){y++;continue}let _e=Math.max(0,F-u[m])+Math.max(0,i[L-1]-Et),qt=(d[L]-
d[m]-_e)*p,Le=L-m===1?m:Oo(t,m,L),Oe=Ro+(255-Ro)*(qt>1?1:qt);r[s+y]=(l[h[Le]]|Math.round(Oe)<<24)>>>0,y++,m=i[L-1]>Et?L-1:L}}function $o(t,o,[e,n],r){let{s,e:a,
sum:c}=t,l=(n-e)/r.length,f=t.first[o+1],u=I(t,o,e);for(let i=0;i<r.length&&u<f;i++){let d=e+i*l,h=it(s,u,f,d+l);if(h===u&&!(s[u]<d+l))continue;let g=Math.max(0,
d-s[u])+Math.max(0,a[h-1]-d-l);r[i]+=Math.max(0,c[h]-c[u]-g)/l,u=h>u&&a[h-1]>d+l?h-1:h}}function dt(t,o,e,n){let{s:r,e:s,first:a}=t,c=I(t,o,e);if(c<a[o+1]&&r[c]<=
e&&s[c]>e&&s[c]-r[c]>=2*n)return t.at[c];let l=I(t,o,e-n),f=it(r,l,a[o+1],e+n),u=f<a[o+1]&&r[f]<=e+n?f+1:f;return l<u?t.at[Oo(t,l,u)]:-1}var zo=["device","host"],yn=400;function bn(t,o){let e={device:new Float32Array(o),host:new Float32Array(o)},n={device:0,host:0};t.data.header.lanes.forEach((r,s)=>{
for(let a=t.index.laneRow[s];a<Math.min(t.index.laneRow[s+1],yn);a++)$o(t.index,a,t.whole,e[r.kind])});for(let r of zo){for(let s of e[r])s>n[r]&&(n[r]=s);if(n[r]>
0)for(let s=0;s<o;s++)e[r][s]/=n[r]}return{shares:e,most:n}}function vn(t,o){let e=document.createElement("canvas"),n=Math.max(1,Math.round(o*t.size.ratio));e.width=
n,e.height=Math.round((v-6)*t.size.ratio);let r=P(e),{shares:s,most:a}=bn(t,n),c=zo.filter(f=>a[f]>0),l=e.height/Math.max(c.length,1);return c.forEach((f,u)=>{r.
fillStyle=t.tones.css[f==="device"?0:t.hostTone];for(let i=0;i<n;i++){let d=s[f][i]*(l-1);d>0&&r.fillRect(i,(u+1)*l-Math.max(1,d),1,Math.max(1,d))}}),e}function Po(t,o){
let{gutter:e,width:n}=t.size;return e+(o-t.whole[0])/(t.whole[1]-t.whole[0])*(n-e)}function Ot(t,o){let{gutter:e,width:n}=t.size;return t.whole[0]+(o-e)/(n-e)*(t.
whole[1]-t.whole[0])}function No(t,o,{width:e,t0:n,t1:r}){let{gutter:s,ratio:a}=o.size,c=`${e} ${a} ${o.mode}`;o.overview?.key!==c&&(o.overview={key:c,picture:vn(
o,e)}),t.fillStyle=o.colors.gutter,t.fillRect(s,0,e,v),t.drawImage(o.overview.picture,s,3,e,v-6);let l=Math.max(s,Po(o,n)),f=Math.min(s+e,Po(o,r));t.fillStyle=o.
colors.bg,t.globalAlpha=.65,t.fillRect(s,0,l-s,v),t.fillRect(f,0,s+e-f,v),t.globalAlpha=1,t.strokeStyle=o.colors.muted,t.lineWidth=1;let u=Math.max(3,f-l);t.strokeRect(
Math.min(l,s+e-u)+.5,.5,u-1,v-1)}var Ht=80;function Fo(t){let o=new Uint32Array(t.n+1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&o[t.launch[r]+1]++;for(let r=0;r<t.n;r++)o[r+1]+=o[r];let e=new Uint32Array(
o[t.n]),n=o.slice(0,-1);for(let r=0;r<t.n;r++)t.launch[r]>=0&&(e[n[t.launch[r]]++]=r);return{first:o,work:e}}function $t(t,o,e=Ht){if(t.data.launch[o]>=0)return[
o];let{first:n,work:r}=t.launches;return[...r.subarray(n[o],Math.min(n[o+1],n[o]+e))]}function Uo(t,o,e){let n=new Set;for(let r of[o.hover,o.focused,o.selected])
if(r!==null)for(let s of $t(o,r))n.add(s);t.globalAlpha=.45;for(let r of Mn(o,e)){let s=o.data.start[o.data.launch[r]];!n.has(r)&&s>=e.t0&&s<=e.t1&&Co(t,o,e,r,1)}
t.globalAlpha=1;for(let r of n)Co(t,o,e,r,1.8)}function Mn(t,o){let{index:e,data:n}=t,r=[],s=0;for(let a of o.parts.flatMap(({lanes:c})=>c))if(n.header.lanes[a].
kind==="device")for(let c=0;c<t.layout.shown[a];c++){let l=e.laneRow[a]+c;for(let f=I(e,l,o.t0);f<e.first[l+1]&&e.s[f]<o.t1;f++){if(s++>4*Ht)return[];if(n.launch[e.
at[f]]>=0&&r.push(e.at[f])>Ht)return[]}}return r}function Co(t,o,e,n,r){let s=U(o,e,o.data.launch[n])??An(o,e,o.data.launch[n]),a=U(o,e,n);if(s===null||a===null)
return;let c=a.y>s.y,l=s.x+Math.min(s.width/2,12),f=s.y+(c?E-1:0),u=a.y+(c?0:E-1),i=Math.min(60,Math.abs(u-f)/2+8)*(c?1:-1);t.strokeStyle=o.colors.arrow,t.fillStyle=
o.colors.arrow,t.lineWidth=r,t.beginPath(),t.moveTo(l,f),t.bezierCurveTo(l,f+i,a.x,u-i,a.x,u),t.stroke();let d=c?-6:6;t.beginPath(),t.moveTo(a.x,u),t.lineTo(a.x-
3.5,u+d),t.lineTo(a.x+3.5,u+d),t.fill()}function An(t,o,e){let n=e;for(;n>=0&&t.rows.row[n]>=t.layout.shown[t.data.lane[n]];)n=t.data.parent[n];let r=n<0?null:U(
t,o,n);return r&&{x:o.x(t.data.start[e]),y:r.y,width:1}}function Do(t,o){let e=document.createElement("canvas");return{canvas:t,context:P(t,{alpha:!1}),stripCanvas:e,stripContext:P(e),strip:null,labels:new Array(o.header.
names.length)}}function Bo(t,o,e){let{stripCanvas:n,stripContext:r}=t;if(t.strip===null||n.width<o||n.height<e){n.width=o,n.height=Math.max(e,n.height);let s=r.
createImageData(o,n.height);t.strip={image:s,pixels:new Uint32Array(s.data.buffer)}}return t.strip}var Pt="#e5484d";function Go(t){let o=[0];for(let e of t.header.lanes)o.push(o[o.length-1]+e.count);return(t.header.races??[]).map(e=>({...e,event:En(t,e,o)}))}
function En(t,{lane:o,at:e,dur:n},r){if(o<0)return-1;for(let s=r[o];s<r[o+1];s++)if(t.start[s]===e&&t.dur[s]===n)return s;return-1}function Wo(t,o,{x:e,t0:n,t1:r}){
t.fillStyle=Pt;for(let{at:s}of o.races){if(s<n||s>r)continue;let a=Math.round(e(s));t.fillRect(a,b-14,1.5,14),t.beginPath(),t.moveTo(a,b-14),t.lineTo(a+9,b-10.5),
t.lineTo(a,b-7),t.fill()}}var ht="#d55e00",Ko=8;function Vo(t){let o=t.header.syncs??[];if(!o.length)return[];let e=[0];for(let r of t.header.lanes)e.push(e[e.length-1]+r.count);let n=new Map(
o.map(r=>[`${r.lane} ${r.at} ${r.dur}`,-1]));for(let r of new Set(o.map(s=>s.lane)))for(let s=e[r];s<e[r+1];s++){let a=`${r} ${t.start[s]} ${t.dur[s]}`;n.has(a)&&
n.set(a,s)}return o.map(r=>({...r,event:n.get(`${r.lane} ${r.at} ${r.dur}`)??-1}))}function Xo(t,o,{x:e,t0:n,t1:r}){t.fillStyle=ht;for(let{at:s,dur:a}of o.syncs){
if(s+a<n||s>r)continue;let c=Math.round(e(s));t.fillRect(c,b-Ko/2,Math.max(1.5,e(s+a)-c),Ko/2)}}var kn=4e3;function Yo(t,o,e){let n=_o(o),r=Lo(o),s=bo(nt(o,!0)),a=ut(o,n,r),c=mo(t),l=new Set(o.header.lanes.flatMap((u,i)=>u.is_idle?[i]:[])),f=o.header.lanes.
map((u,i)=>i);return{data:o,options:e,dom:c,painter:Do(c.canvas,o),rows:n,tone:r,hostTone:Tn(o,a),whole:s,extent:nt(o),view:[...s],before:[],after:[],movedAt:-1/0,
index:a,launches:Fo(o),collapsed:l,order:f,pinned:new Set,filters:new Map,lanesPanel:null,layout:rt(n.heights,l,f),steps:Sn(o),races:Go(o),syncs:Vo(o),marks:[],
chosen:null,names:null,search:null,range:null,selected:null,focused:null,hover:null,hasFocus:!1,focusLane:-1,isArmed:!1,drag:null,held:new Set,pointerX:null,scroll:0,
size:{width:0,height:0,gutter:150,ratio:1},...zt(e.theme??"light"),overview:null,lowerNames:null,script:[],pending:0,beforeFrame:null,isGone:!1,isReleased:!1,cleanups:[]}}
function zt(t){let o=T[t],e=So(t),n=Number.parseInt(o.dim.slice(1),16),r=((n&255)<<16|n&65280|n>>16)>>>0;return{mode:t,colors:o,tones:e,dimPixels:new Uint32Array(
e.pixels.length).fill(r)}}function M(t,o,e,n,r){o.addEventListener(e,n,r),t.cleanups.push(()=>o.removeEventListener(e,n,r))}function Tn({header:t},{first:o,laneRow:e,
tone:n}){let r=t.lanes.findIndex(({kind:s,count:a})=>s==="host"&&a>0);return r<0?0:n[o[e[r]]]}function Sn(t){let o=new Set(t.header.step_names),e=[];if(!o.size)
return e;for(let n=0;n<t.n;n++)o.has(t.name[n])&&t.header.lanes[t.lane[n]].kind==="host"&&e.push({t0:t.start[n],t1:t.start[n]+t.dur[n]});return e.length>kn?[]:e.
sort((n,r)=>n.t0-r.t0)}var Rn=4,In={gutter:"pointer",ruler:"col-resize",overview:"ew-resize"};function _n(t,o){let e=t.getBoundingClientRect();return[o.clientX-e.left,o.clientY-e.top]}
function pt(t,o,e){return o<t.size.gutter?e<b?"corner":"gutter":e<v?"overview":e<b?"ruler":"plot"}function jo(t,o){let{canvas:e}=t.dom,n=r=>_n(e,r);M(t,e,"point\
erdown",r=>{if(r.button!==0)return;let[s,a]=n(r),c=pt(t,s,a);t.isArmed=!0,e.focus({preventScroll:!0}),e.setPointerCapture(r.pointerId);let l=c==="ruler"||c==="p\
lot"&&r.shiftKey?"range":c;t.drag={kind:l,x:s,y:a,view:[...t.view],scroll:t.scroll,moved:!1,from:o.timeAt(s)},l==="overview"&&o.centre(Ot(t,s))}),M(t,e,"pointer\
move",r=>{let[s,a]=n(r);if(t.drag===null){let c=pt(t,s,a);e.style.cursor=In[c]??"default",c==="plot"?o.hover(s,a):o.leave()}else Ln(t,o,s,a)}),M(t,e,"pointerup",
r=>{let[s,a]=n(r),{drag:c}=t;t.drag=null,e.style.cursor="default",c!==null&&(c.kind==="range"&&c.moved?o.finishRange():c.kind==="gutter"?c.moved?o.dropLane(c.y,
a):o.toggleLane(a):!c.moved&&c.kind==="range"&&!o.measureTo(s,a)?o.clearRange():!c.moved&&c.kind==="plot"&&o.click(s,a))}),M(t,e,"pointercancel",()=>{t.drag=null}),
M(t,e,"pointerleave",()=>{t.isArmed=t.drag!==null,o.leave()}),M(t,e,"dblclick",r=>{let[s,a]=n(r);pt(t,s,a)==="plot"?o.zoomToEventAt(s,a):pt(t,s,a)!=="gutter"&&o.
fit()}),M(t,e,"wheel",r=>On(t,o,r,n(r)),{passive:!1})}function Ln(t,o,e,n){let{drag:r}=t;if(r!==null&&!(!r.moved&&Math.hypot(e-r.x,n-r.y)<Rn))if(r.moved=!0,r.kind===
"plot"){t.dom.canvas.style.cursor="grabbing";let s=(r.view[1]-r.view[0])/(t.size.width-t.size.gutter),a=(e-r.x)*s;o.show([r.view[0]-a,r.view[1]-a]),t.dom.frame.
scrollTop=r.scroll-(n-r.y)}else r.kind==="range"?o.dragRange(r.from,o.timeAt(Math.min(Math.max(e,t.size.gutter),t.size.width))):r.kind==="overview"&&o.centre(Ot(
t,e))}function On(t,o,e,[n]){let r=e.deltaMode===1?16:e.deltaMode===2?400:1,[s,a]=[e.deltaX*r,e.deltaY*r],c=e.ctrlKey||e.metaKey;if(!c&&!t.isArmed)return;e.preventDefault();
let l=e.shiftKey&&s===0?a:s;!c&&(e.shiftKey||Math.abs(s)>Math.abs(a))?o.pan(l):o.zoom(Math.exp(Math.min(Math.max(a,-200),200)*(c&&Math.abs(a)<30?.01:.0022)),n)}
var Nt={w:[1,0],s:[-1,0],a:[0,-1],d:[0,1]},qo={ArrowLeft:"left",ArrowRight:"right",ArrowUp:"up",ArrowDown:"down"};function Zo(t,o){let{canvas:e,search:n}=t.dom;
M(t,e,"keydown",r=>{r.ctrlKey||r.metaKey||r.altKey||Hn(t,o,r)&&(r.preventDefault(),r.stopPropagation())}),M(t,e,"keyup",r=>t.held.delete(r.key.toLowerCase())),M(
t,e,"focus",()=>o.focusChanged(!0)),M(t,e,"blur",()=>{t.held.clear(),t.isArmed=!1,o.focusChanged(!1)}),M(t,n,"input",()=>o.search(n.value)),M(t,n,"keydown",r=>{
if(r.stopPropagation(),r.key==="Enter")o.nextMatch(r.shiftKey?-1:1);else if(r.key==="Escape")n.value="",o.search(""),e.focus({preventScroll:!0});else return;r.preventDefault()})}
function Hn(t,o,e){let n=e.key.length===1?e.key.toLowerCase():e.key;if(n in Nt)o.hold(n);else if(n in qo)o.arrow(qo[n]);else if(n==="Enter"||n===" ")o.enter();else if(n===
"f"||n==="z")o.zoomToFocused();else if(n==="0")o.fit();else if(n==="b"||n==="Backspace")o.back(e.shiftKey);else if(n==="?")o.showKeys();else if(n==="l")o.follow();else if(n===
"c")o.toggleFocusLane();else if(n==="p")o.pinFocusLane();else if(n==="/")t.dom.search.select();else if(n==="n")o.nextMatch(e.shiftKey?-1:1);else if(n==="+"||n===
"=")o.zoom(.7,null);else if(n==="-")o.zoom(1/.7,null);else if(n==="Home"||n==="End")o.toEnd(n==="End");else if(n==="PageUp"||n==="PageDown")t.dom.frame.scrollBy(
0,(n==="PageUp"?-.8:.8)*t.size.height);else return n==="Escape"?o.escape():!1;return!0}function Ct(t){let o=[0,0];for(let e of t)o[0]+=Nt[e][0],o[1]+=Nt[e][1];return o}var $n=.25;function Jo(t,o,e){let{x:n,t0:r,t1:s,width:a}=e,{gutter:c}=o.size,{ticks:l}=vo(r,s,a);t.fillStyle=o.colors.line,t.fillRect(c,b-1,a,1),t.textAlign="le\
ft";for(let{t:u,text:i}of l){let d=Math.round(n(u));t.fillStyle=o.colors.line,t.fillRect(d,b-8,1,8),t.fillStyle=o.colors.muted,d+60<o.size.width&&t.fillText(i,d+
4,v+V/2)}let{range:f}=o;f!==null&&f[1]>r&&f[0]<s&&Pn(t,o,f,e)}function Pn(t,o,e,{x:n,width:r}){let{gutter:s}=o.size,a=S(e[1]-e[0]),c=t.measureText(a).width+12,l=(n(
e[0])+n(e[1]))/2,f=Math.min(Math.max(l-c/2,s),s+r-c);t.fillStyle=o.colors.tip,t.fillRect(f,v+3,c,V-6),t.fillStyle=o.colors.tipText,t.fillText(a,f+6,v+V/2)}function Qo(t,o,e){
let{gutter:n,height:r}=o.size;t.fillStyle=o.colors.gutter,t.fillRect(0,0,n,r),t.textAlign="left";for(let s of e.parts){t.save(),t.beginPath(),t.rect(0,s.top,n-1,
s.bottom-s.top),t.clip(),Ft(t,o,e,s,0);for(let a of s.lanes)zn(t,o,e,s,a);t.restore()}t.fillStyle=o.colors.line,t.fillRect(n-1,0,1,r),t.fillRect(0,b-1,n,1);for(let{
bottom:s}of e.parts.slice(1))t.fillRect(0,s-2,o.size.width,2)}function zn(t,o,e,n,r){let{layout:s,colors:a,size:c}=o,l=o.rows.heights[r]>1,f=E/2+4,u=e.down(r,s.
tops[r])+f,i=e.down(r,s.ends[r])-f,d=Math.round(Math.min(Math.max(u,n.top+f),i));t.fillStyle=a.muted,l&&Fn(t,12,d,o.collapsed.has(r)),t.fillStyle=r===o.focusLane&&
o.hasFocus?a.accent:a.text,t.fillText(Nn(t,Cn(o,r),c.gutter-32),22,d)}function Nn(t,o,e){return t.measureText(o).width<=e?o:fo(t,o.replace(/^(thread \S+) \([^()]*\)/,
"$1"),e,$n)}function Cn({data:t,filters:o},e){let{label:n}=t.header.lanes[e];return o.has(e)?`${n} (${o.get(e)?.text})`:n}function Fn(t,o,e,n){let r=n?[[-2.5,-4],
[3,0],[-2.5,4]]:[[-4,-2.5],[4,-2.5],[0,3]];t.beginPath();for(let[s,a]of r)t.lineTo(o+s,e+a);t.fill()}function Ft(t,o,{down:e},{lanes:n},r){t.fillStyle=o.colors.
lineSoft;for(let s of n)t.fillRect(r,Math.round(e(s,o.layout.ends[s]))-1,o.size.width-r,1)}var Un=5,te=24;function oe(t,o,{x:e,t0:n,t1:r}){let{gutter:s,width:a,height:c}=o.size;t.fillStyle=o.colors.accent,t.textAlign="left";for(let{at:l,dur:f,note:u}of o.
marks){if(l+f<n||l>r)continue;let i=Math.max(s,Math.round(e(l))),d=Math.min(a,Math.max(i+2,e(l+f)));t.fillRect(i,v,d-i,Un),t.globalAlpha=.5,l>=n&&t.fillRect(i,v,
1,c-v),t.globalAlpha=1;let h=u.length>te?`${u.slice(0,te)}\u2026`:u;if(!h)continue;let g=t.measureText(h).width+8,p=Math.min(i,a-g);t.fillRect(p,v,g,b-v-9),t.fillStyle=
o.colors.bg,t.fillText(h,p+4,v+(b-v-9)/2+.5),t.fillStyle=o.colors.accent}}function ee({data:t,races:o},e){let{names:n,cats:r,lanes:s}=t.header,c=s[t.lane[e]].kind==="host"&&t.self[e]!==t.dur[e]?`, self ${S(t.self[e])}`:"",l=[n[t.name[e]].
slice(0,400)||"(no name)"],f=Ut(t,e),u=t.name[e+s[t.lane[e]].enclosing-1];f&&l.push(`${f}, the innermost: ${n[u].slice(0,200)}`),l.push(t.flags[e]&$.instant?"in\
stant":`${S(t.dur[e])}${c}`),l.push(`${r[t.cat[e]]||"no category"} \xB7 at ${Bn(t.start[e])}`);let i=t.launch[e];if(i>=0){let h=n[t.name[i]].slice(0,100);l.push(
`launched by ${h}, ${S(t.start[e]-t.start[i])} earlier`)}let d=o.find(({event:h})=>h===e);return d&&l.push(`race: ${d.title}`),l}function Ut(t,o){let{enclosing:e}=t.
header.lanes[t.lane[o]],n=o===0||t.lane[o-1]!==t.lane[o];return e>1&&n?`${e} enclosing frames`:void 0}function gt(t,o){let{names:e,cats:n,lanes:r}=t.header,s=[e[t.
name[o]].slice(0,200)||"no name",n[t.cat[o]]||"no category"];return s.push(t.flags[o]&$.instant?"an instant":`lasts ${S(t.dur[o])}`),s.push(`starts at ${S(t.start[o])}`,
`on ${r[t.lane[o]].label}`),t.launch[o]>=0&&s.push(`launched by ${e[t.name[t.launch[o]]].slice(0,100)}`),s.join(", ")}function ne(t){return t.slice(0,300).replace(
/^void /,"").replaceAll("(anonymous namespace)::","").replaceAll("at::native::","")||t.slice(0,300)}function re(t){return t.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
"")||t}var Dn=[[1e9,"s",9],[1e6,"ms",6],[1e3,"\xB5s",3]];function Bn(t){let[o,e,n]=Dn.find(([r])=>Math.abs(t)>=r)??[1,"ns",0];return`${(t/o).toFixed(n)} ${e}`}var Gn='11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',Wn=28;function se(t){let{painter:o,size:e,colors:n}=t,r=o.context;
r.setTransform(e.ratio,0,0,e.ratio,0,0),r.font=Gn,r.textBaseline="middle",r.fillStyle=n.bg,r.fillRect(0,0,e.width,e.height);let s=O(t);for(let a of s.parts)Kn(r,
t,s,a);or(r,t,s),Jo(r,t,s),oe(r,t,s),Xo(r,t,s),Wo(r,t,s),No(r,t,s),Qo(r,t,s)}function Kn(t,o,e,n){let{gutter:r}=o.size;t.save(),t.beginPath(),t.rect(r,n.top,e.width,
n.bottom-n.top),t.clip(),Vn(t,o,e),Ft(t,o,e,n,r),Xn(t,o,e,n),tr(t,o,e),Uo(t,o,e),t.restore()}function Vn(t,o,{x:e,t0:n,t1:r}){t.fillStyle=o.colors.band,t.globalAlpha=
o.colors.bandAlpha,o.steps.forEach((s,a)=>{a%2===0&&s.t1>n&&s.t0<r&&t.fillRect(e(s.t0),b,Math.max(1,e(s.t1)-e(s.t0)),o.size.height)}),t.globalAlpha=1}function Xn(t,o,e,n){
let{painter:r,size:s}=o,a=Yn(o,e,n);if(!a.length)return;let{pixels:c}=e,{image:l,pixels:f}=Bo(r,c,a.length);f.fill(0,0,l.width*a.length);let u=a.flatMap(({lane:h,
row:g},p)=>qn(o,e,h,g,f,p*l.width));r.stripContext.putImageData(l,0,0,0,0,c,a.length),t.imageSmoothingEnabled=!1;let[i,d]=[s.gutter,c/s.ratio];a.forEach(({lane:h,
row:g},p)=>{let w=Math.round(e.y(h,g));t.drawImage(r.stripCanvas,0,p,c,1,i,w,d,E-1)}),jn(t,o,e,u)}function Yn(t,{y:o},{lanes:e,top:n,bottom:r}){let s=[];for(let a of e)
for(let c=0;c<t.layout.shown[a];c++){let l=o(a,c);l>n-E&&l<r&&s.push({lane:a,row:c})}return s}function qn(t,o,e,n,r,s){let{index:a,chosen:c,tones:l}=t,f=Wn*t.size.
ratio,u=o.y(e,n),i={t0:o.t0,w:o.w,width:o.pixels,out:r,base:s,minWidth:f},d=[],h=(g,p,w)=>Ho(g,a.laneRow[e]+n,i,p,(m,y,k)=>{w?.[g.at[m]]||d.push({i:g.at[m],tone:g.
tone[m],x0:y,x1:k,y:u,isDim:w!==null})});return c===null?h(a,l.pixels,null):(h(a,t.dimPixels,c.keep),h(c.index,l.pixels,null)),d}function jn(t,o,e,n){let{ratio:r,
gutter:s}=o.size;t.textAlign="left";for(let{i:a,tone:c,x0:l,x1:f,y:u,isDim:i}of n){let d=Math.max(0,l)/r,h=Math.min(e.width,f/r)-d-8,g=Ut(o.data,a)??Zn(t,o,o.data.
name[a],h);g&&(t.fillStyle=i?o.colors.muted:o.tones.ink[c],t.fillText(g,Math.round(s+d+4),Math.round(u)+E/2))}}function Zn(t,o,e,n){let{labels:r}=o.painter,s=r[e]??
Qn(t,o.data.header,e);if(r[e]=s,s.width<=n)return s.text;if(s.shortWidth<=n)return s.short;let a=Math.floor(s.short.length*n/s.shortWidth);for(;a>=2&&Jn(t,s,a)>
n;)a--;return a<2?"":`${s.short.slice(0,a)}\u2026`}function Jn(t,o,e){return o.cuts[e]??=t.measureText(`${o.short.slice(0,e)}\u2026`).width,o.cuts[e]}function Qn(t,o,e){
let n=o.short[e],r=n??ne(o.names[e]),s=n??re(r);return{text:r,short:s,cuts:[],width:t.measureText(r).width,shortWidth:t.measureText(s).width}}function tr(t,o,e){
for(let{event:n}of o.syncs)n>=0&&Y(t,o,e,n,ht,1.5);for(let{event:n}of o.races)n>=0&&Y(t,o,e,n,Pt,2.5);o.hover!==null&&o.hover!==o.selected&&Y(t,o,e,o.hover,o.colors.
text,1),o.selected!==null&&Y(t,o,e,o.selected,o.colors.accent,2.5),o.focused!==null&&o.focused!==o.selected&&o.hasFocus&&Y(t,o,e,o.focused,o.colors.text,2,[4,2])}
function Y(t,o,e,n,r,s,a=[]){let c=U(o,e,n);if(c===null)return;t.strokeStyle=r,t.lineWidth=s,t.setLineDash(a);let l=Math.max(c.x,o.size.gutter-4);t.strokeRect(l,
c.y,Math.max(2,Math.min(c.x+c.width,o.size.width+4)-l),E-1),t.setLineDash([])}function or(t,o,{x:e,width:n}){if(o.range===null)return;let{gutter:r,height:s}=o.size,
a=f=>Math.min(Math.max(f,r),r+n),[c,l]=o.range.map(f=>a(e(f)));l<=r||c>=r+n||(t.fillStyle=o.colors.accent,t.globalAlpha=o.colors.rangeAlpha,t.fillRect(c,v,l-c,s-
v),t.globalAlpha=1,c>r&&t.fillRect(c-.5,v,1,s),l<r+n&&t.fillRect(l-.5,v,1,s))}function ae(t){let o=new Uint8Array(T.groups.length);for(let n of t.index.tone)o[n/
D|0]=1;let e=[];return T.groups.forEach((n,r)=>{o[r]&&e.push([n.label,t.tones.css[r*D]])}),t.syncs.length&&e.push(["Host waits for GPU",ht]),e}var ce=2e3,er=100,nr=500;function B(t){if(t.isReleased)return;let{frame:o,stage:e,canvas:n}=t.dom,r=Math.max(1,o.clientWidth),s=Math.max(b+E,o.clientHeight),a=window.
devicePixelRatio||1;e.style.height=`${Math.max(s,Math.ceil(t.layout.total+b))}px`;let{size:c}=t;c.width!==r||c.height!==s||c.ratio!==a?(t.size={width:r,height:s,
ratio:a,gutter:Math.round(Math.min(188,Math.max(132,r*.2),r*.35))},n.width=Math.round(r*a),n.height=Math.round(s*a),n.style.width=`${r}px`,n.style.height=`${s}p\
x`,wt(t)):A(t)}function fe(t,o){if(t.isReleased!==o)return;if(t.isReleased=!o,o){t.size={...t.size,width:0},B(t);return}let{canvas:e}=t.dom;for(let n of[e,t.painter.
stripCanvas])n.width=n.height=0;t.painter.strip=null,t.overview=null}function wt(t){if(t.isReleased)return;let o=performance.now();t.scroll=t.dom.frame.scrollTop,
se(t),t.script.push(performance.now()-o),t.script.length>ce&&t.script.splice(0,ce/2)}function A(t){t.pending||t.isGone||(t.pending=requestAnimationFrame(o=>{t.pending=
0,!t.isGone&&(t.beforeFrame?.(o),wt(t))}))}function mt(t,o){ue(t),Dt(t,o)}function ue(t){performance.now()-t.movedAt<=nr||(t.before.push(t.view),t.before.length>
er&&t.before.shift(),t.after=[])}function ie(t,o){let[e,n]=o?[t.after,t.before]:[t.before,t.after],{view:r}=t,s=e.pop();for(;s?.[0]===r[0]&&s[1]===r[1];)s=e.pop();
s!==void 0&&(n.push(r),de(t,s))}function Dt(t,o){t.movedAt=performance.now();let e=Lt(o,t.extent);e[0]===t.view[0]&&e[1]===t.view[1]||(t.view=e,t.options.onTime?.(
[...e]),A(t))}function _(t,o){ue(t),de(t,o)}function de(t,o){let e=Lt(o,t.extent);if(t.held.clear(),matchMedia("(prefers-reduced-motion: reduce)").matches){Dt(t,
e);return}let n=t.view,r=null;t.beforeFrame=s=>{r??=s;let a=Math.min(1,(s-r)/180),c=1-(1-a)**3;Dt(t,a<1?[n[0]+(e[0]-n[0])*c,n[1]+(e[1]-n[1])*c]:e),a>=1?t.beforeFrame=
null:A(t)},A(t)}function G(t){let{data:o,names:e,search:n,filters:r}=t;if(e===null&&n===null&&!r.size)t.chosen=null;else{let s=new Uint8Array(o.header.names.length);
for(let l=0;l<s.length;l++)s[l]=+((e===null||e.has(l))&&(n===null||n.isHit[l]));let a=new Uint8Array(o.n),c=o.header.lanes.map((l,f)=>r.get(f)?.isHit??null);for(let l=0;l<
o.n;l++)a[l]=s[o.name[l]]&(c[o.lane[l]]?.[o.name[l]]??1);t.chosen={keep:a,index:ut(o,t.rows,t.tone,a)}}A(t)}function Bt(t){let{rows:o,collapsed:e,order:n,pinned:r}=t;
t.layout=rt(o.heights,e,n,r.size),B(t)}function N(t){t.options.onSelect?.({range:t.range&&[...t.range],event:t.selected,names:t.names&&new Set(t.names)})}function C(t,o,e=!1){
let{data:n,view:r,dom:s,layout:a}=t;s.tip.hidden=!0,t.hover=null;let c=ft(n,t.rows,o),[l,f]=[n.start[c],n.start[c]+n.dur[c]],u=n.lane[c];t.rows.row[c]>=a.shown[u]&&
t.collapsed.delete(u)&&Bt(t);let i=st(t.layout,u,t.rows.row[c]),d=t.size.height-b,h=at(t),g=i<h;!g&&i<t.scroll+h?s.frame.scrollTop=i-h-8:!g&&i+E>t.scroll+d&&(s.
frame.scrollTop=i+E+8-d);let p=r[1]-r[0],w=p/(t.size.width-t.size.gutter);e?_(t,le(l,f,4)):f-l<3*w?_(t,le(l,f,30)):(f<r[0]+p*.02||l>r[1]-p*.02)&&_(t,[(l+f-p)/2,
(l+f+p)/2]),A(t)}function le(t,o,e){let n=o>t?(o-t)*e/2:500;return[(t+o)/2-n,(t+o)/2+n]}function xt(t,o){o<0||(t.focused=o,t.focusLane=t.data.lane[o],t.dom.spoken.
textContent=gt(t.data,o),C(t,o))}function rr(t,o){let e=t.index.laneRow[t.data.lane[o]]+t.rows.row[o],n=I(t.index,e,t.data.start[o]);for(;n<t.index.first[e+1]&&t.index.at[n]!==o;)n++;return{r:e,
p:n}}function yt(t,o,e){let n=ft(t.data,t.rows,o);if(e==="left"||e==="right"){let{r:c,p:l}=rr(t,n),f=e==="left"?l-1:l+1;return f>=t.index.first[c]&&f<t.index.first[c+
1]?t.index.at[f]:n}let r=t.data.lane[n],s=t.rows.row[n]+(e==="up"?-1:1),a=t.data.start[n]+t.data.dur[n]/2;if(s>=0&&s<t.layout.shown[r]){let c=e==="up"?t.data.start[n]:
a,l=Gt(t,r,s,c,e==="up"?0:t.data.dur[n]/2);if(l>=0)return l}return sr(t,r,e==="up"?-1:1,a)??n}function sr(t,o,e,n){let{order:r}=t.layout;for(let s=r.indexOf(o)+
e;s>=0&&s<r.length;s+=e){let a=Gt(t,r[s],0,n,1/0);if(a>=0)return a}return null}function Gt(t,o,e,n,r){let{index:s}=t,a=s.laneRow[o]+e,c=dt(s,a,n,0);if(c>=0)return c;
let l=I(s,a,n),f=-1,u=r;for(let i of[l-1,l]){if(i<s.first[a]||i>=s.first[a+1])continue;let d=Math.max(s.s[i]-n,n-s.e[i],0);d<=u&&(f=s.at[i],u=d)}return f}function q(t,o){
return t.data.launch[o]>=0?t.data.launch[o]:$t(t,o,1)[0]??o}function he(t,o){let e=(t.view[0]+t.view[1])/2;for(let n of o){let r=Gt(t,n,0,e,1/0);if(r>=0)return r}
return-1}function pe(t,o){if(!o.trim())return null;let e=Wt(t,o),n=0;for(let r=0;r<t.data.n;r++)n+=e[t.data.name[r]];return{isHit:e,count:n,at:-1}}function Wt(t,o){
let e=o.trim().toLowerCase();return t.lowerNames??=t.data.header.names.map(n=>n.toLowerCase()),Uint8Array.from(t.lowerNames,n=>+n.includes(e))}function ge({data:t,
view:o},e,n){let r=e.at,s=(u,i)=>t.start[u]<t.start[i]||t.start[u]===t.start[i]&&u<i,a=-1,c=-1;for(let u=0;u<t.n;u++){if(!e.isHit[t.name[u]])continue;let i=n>0?
s:(h,g)=>s(g,h);(c<0||i(u,c))&&(c=u),(r>=0?i(r,u):n>0?t.start[u]>=o[0]:t.start[u]<=o[1])&&(a<0||i(u,a))&&(a=u)}let l=a>=0?a:c,f=0;if(l>=0)for(let u=0;u<t.n;u++)
f+=e.isHit[t.name[u]]&&!s(l,u)?1:0;return{found:l,ordinal:f}}function j(t,o){o<0||t.rows.heights[o]<2||(t.collapsed.delete(o)||t.collapsed.add(o),Kt(t,o,t.collapsed.has(o)?"folded":"unfolded"))}function bt(t,o){let{order:e,
pinned:n}=t;o<0||(e.splice(e.indexOf(o),1),n.delete(o)?e.splice(n.size,0,o):(e.splice(n.size,0,o),n.add(o)),Kt(t,o,n.has(o)?"pinned":"no longer pinned"))}function Z(t,o,e){
let{order:n,pinned:r}=t;if(o<0)return;let[s,a]=r.has(o)?[0,r.size-1]:[r.size,n.length-1];n.splice(n.indexOf(o),1),n.splice(Math.min(Math.max(e,s),a),0,o),Kt(t,o,
`is lane ${n.indexOf(o)+1} of ${n.length}`)}function we(t,o,e){e.trim()?t.filters.set(o,{text:e.trim(),isHit:Wt(t,e)}):t.filters.delete(o),G(t)}function Kt(t,o,e){
t.dom.spoken.textContent=`${t.data.header.lanes[o].label} ${e}`,Bt(t),t.lanesPanel?.update()}function J(t,o){t.beforeFrame=null,mt(t,o)}function vt(t,o){let{size:e,view:n}=t,r=o/(e.width-e.gutter)*(n[1]-n[0]);J(t,[n[0]+r,n[1]+r])}function Vt(t,o,e){let{
size:n,view:r}=t,s=e===null?.5:Math.min(Math.max((e-n.gutter)/(n.width-n.gutter),0),1),a=r[0]+s*(r[1]-r[0]);J(t,[a+(r[0]-a)*o,a+(r[1]-a)*o])}function me(t,o){let e=(t.
view[1]-t.view[0])/2;J(t,[o-e,o+e])}function xe(t,o){let{extent:e,view:n}=t,r=n[1]-n[0],s=r*.02,a=o?e[1]+s-r:e[0]-s;_(t,[a,a+r])}var ar=3;function be(t){return{...cr(t),...lr(t),...fr(t)}}function cr(t){return{show:o=>J(t,o),pan:o=>vt(t,o),zoom:(o,e)=>Vt(t,o,e),centre:o=>me(t,o),back:o=>ie(
t,o),fit:()=>_(t,t.whole),toEnd:o=>xe(t,o)}}function lr(t){return{timeAt:o=>ve(t,o),hover:(o,e)=>ur(t,o,e),leave(){t.pointerX=null,Me(t,null)},click:(o,e)=>ir(t,
o,e),zoomToEventAt(o,e){let n=Mt(t,o,e);n!==null&&C(t,n,!0)},dragRange(o,e){t.range=[Math.min(o,e),Math.max(o,e)],A(t)},finishRange:()=>N(t),measureTo(o,e){let[
n,r]=[t.selected,Mt(t,o,e)];return n===null||r===null||n===r?!1:(t.range=ho(t.data,n,r),t.selected=null,N(t),A(t),!0)},clearRange(){t.range!==null&&(t.range=null,
N(t),A(t))},toggleLane:o=>j(t,z(t.layout,ct(t,o))),dropLane(o,e){let[n,r]=[o,e].map(s=>z(t.layout,ct(t,s)));Z(t,n,r<0?e<b?0:t.order.length-1:t.order.indexOf(r))}}}
function fr(t){return{zoomToFocused(){let o=t.focused??t.selected;o!==null?C(t,o,!0):t.range!==null?_(t,dr(t.range)):_(t,t.whole)},showKeys:()=>It(t.dom),toggleFocusLane:()=>j(
t,ye(t)),pinFocusLane:()=>bt(t,ye(t)),arrow(o){t.focused!==null?Xt(t,yt(t,t.focused,o)):o==="left"||o==="right"?vt(t,(o==="left"?-1:1)*80):t.dom.frame.scrollBy(
0,(o==="up"?-2:2)*E)},enter(){let{focused:o}=t;o===null?xt(t,he(t,Ae(t))):o===t.selected?Xt(t,q(t,o)):Yt(t,o)},follow(){t.focused!==null&&Xt(t,q(t,t.focused))},
escape:()=>hr(t),search:o=>At(t,o),nextMatch:o=>pr(t,o),hold:o=>gr(t,o),focusChanged(o){t.hasFocus=o,A(t)}}}function ve(t,o){let e=O(t);return e.t0+(o-t.size.gutter)/
e.scale}function Mt(t,o,e){let{index:n,layout:r,size:s}=t,a=Mo(r,ct(t,e));if(a===null||o<s.gutter||e<b)return null;let c=ar/O(t).scale,l=dt(n,n.laneRow[a.lane]+
a.row,ve(t,o),c);return l<0?null:l}function ur(t,o,e){let{dom:n}=t;t.pointerX=o;let r=Mt(t,o,e);r!==null&&yo(n,ee(t,r),o+n.frame.offsetLeft,e+n.frame.offsetTop),
Me(t,r)}function Me(t,o){o===null&&(t.dom.tip.hidden=!0),o!==t.hover&&(t.hover=o,t.options.onHover?.(o),A(t))}function ir(t,o,e){let n=Mt(t,o,e);t.focused=n,n===
null&&(t.range=null),Yt(t,n)}function Yt(t,o){t.selected=o,o!==null&&(t.dom.spoken.textContent=`selected ${gt(t.data,o)}`),N(t),A(t)}function Xt(t,o){let e=t.selected!==
null&&t.focused===t.selected;xt(t,o),e&&t.focused!==null&&Yt(t,t.focused)}function dr([t,o]){let e=Math.max((o-t)*.1,50);return[t-e,o+e]}function Ae(t){let o=O(
t).parts.reverse().flatMap(({lanes:e})=>e);return[...o,...t.order.slice(t.order.indexOf(o[o.length-1])+1)]}function ye(t){return t.focusLane>=0?t.focusLane:Ae(t)[0]??
-1}function hr(t){if(!t.dom.keys.hidden)It(t.dom);else if(t.search!==null)t.dom.search.value="",At(t,"");else if(t.focused!==null&&t.focused!==t.selected)t.focused=
null;else if(t.selected!==null||t.range!==null)Object.assign(t,{selected:null,range:null,focused:null}),N(t);else return!1;return t.isArmed=!1,A(t),!0}function At(t,o){
let e=pe(t,o);return t.search=e,t.dom.matches.textContent=e&&`${et(e.count)} ${e.count===1?"match":"matches"}`,G(t),e?.count??0}function pr(t,o){let{search:e}=t;
if(e===null||e.count===0)return;let{found:n,ordinal:r}=ge(t,e,o);e.at=n,t.dom.matches.textContent=`${et(r)} of ${et(e.count)}`,t.selected=n,xt(t,n),N(t)}function gr(t,o){
let e=([s,a],c)=>{s&&Vt(t,Math.exp(-s*2.2*c),t.pointerX),a&&vt(t,a*900*c)};if(matchMedia("(prefers-reduced-motion: reduce)").matches){e(Ct([o]),.12);return}if(t.
held.has(o))return;t.held.add(o);let n=null,r=s=>{let a=n===null?.016666666666666666:Math.min(.05,(s-n)/1e3);n=s,e(Ct(t.held),a),t.beforeFrame=t.held.size?r:null,
t.held.size&&A(t)};t.beforeFrame=r,A(t)}function Ee(t){let{lanesButton:o,lanes:e}=t.dom;M(t,o,"click",()=>{t.lanesPanel??=wr(t),e.hidden=!e.hidden,o.setAttribute("aria-expanded",String(!e.hidden)),t.lanesPanel.
update()})}function wr(t){let o=t.data.header.lanes.map((n,r)=>mr(t,r)),e=x("ul",{"aria-label":"Lanes"});return t.dom.lanes.replaceChildren(e),{update(){let{activeElement:n}=document;
e.append(...t.order.map(r=>o[r].node));for(let r of o)r.update();n instanceof HTMLElement&&e.contains(n)&&n.focus()}}}function mr(t,o){let{label:e}=t.data.header.
lanes[o],n=(u,i,d)=>x("button",{type:"button",title:i,"aria-label":`${i}: ${e}`,onclick:d},u),r=n("Pin","Pin on top",()=>bt(t,o)),s=n("\u2191","Move up",()=>Z(t,
o,t.order.indexOf(o)-1)),a=n("\u2193","Move down",()=>Z(t,o,t.order.indexOf(o)+1)),c=n("Fold","Fold to one row",()=>j(t,o));c.disabled=t.rows.heights[o]<2;let l=x(
"input",{type:"search",placeholder:"Filter names","aria-label":`Filter names: ${e}`});l.addEventListener("input",()=>we(t,o,l.value));for(let u of[r,s,a,c,l])u.
setAttribute("data-lm-suppress-shortcuts","true");let f=x("span",{class:"cltl-lane",title:e},e);return{node:x("li",{},r,s,a,c,f,l),update(){r.setAttribute("aria\
-pressed",String(t.pinned.has(o))),c.setAttribute("aria-pressed",String(t.collapsed.has(o)))}}}var xr=460,yr=150,br="800px 0px";function Te(t,o,e={}){let n=Yo(t,o,e),r=be(n);jo(n,r),Zo(n,r),Mr(n,r),Se(n,n.mode),vr(n),B(n);let s=new ResizeObserver(()=>B(n));
s.observe(n.dom.frame);let a=new IntersectionObserver(c=>fe(n,c[c.length-1].isIntersecting),{rootMargin:br});return a.observe(n.dom.frame),n.cleanups.push(()=>s.
disconnect(),()=>a.disconnect()),wt(n),Er(n,r)}function Se(t,o){Object.assign(t,zt(o)),wo(t.dom.host,t.colors),xo(t.dom,ae(t)),A(t)}function vr({dom:t,layout:o,
options:e}){let n=e.height??Math.min(xr,Math.max(yr,o.total+b));t.frame.style.height=`${Math.round(n)+2}px`}function Mr(t,o){let{dom:e}=t;M(t,e.zoomIn,"click",()=>o.
zoom(.5,null)),M(t,e.zoomOut,"click",()=>o.zoom(2,null)),M(t,e.fit,"click",o.fit),M(t,e.keysButton,"click",o.showKeys),M(t,e.picture,"click",()=>Ar(t)),Ee(t),M(
t,e.next,"click",()=>o.nextMatch(1)),M(t,e.previous,"click",()=>o.nextMatch(-1)),M(t,e.frame,"scroll",()=>A(t),{passive:!0})}function Ar({dom:t,colors:o}){let{canvas:e}=t,
n=x("canvas",{width:e.width,height:e.height}),r=P(n);r.fillStyle=o.bg,r.fillRect(0,0,n.width,n.height),r.drawImage(e,0,0),x("a",{href:n.toDataURL("image/png"),download:"\
timeline.png"}).click()}function Er(t,o){return{setTheme:e=>Se(t,e),fit:o.fit,zoomTo:(e,n)=>o.show([e,n]),getView:()=>[...t.view],select(e=null){t.selected=t.focused=
e,e!==null&&C(t,e),A(t)},setRange(e,n=null){t.range=e===null||n===null?null:[e,n],A(t)},setNames(e){t.names=e===null?null:new Set(e),G(t)},beside:(e,n)=>yt(t,e,
n),partnerOf:e=>q(t,e),raceOf:e=>t.races.find(n=>n.event===e&&e!==null)?.race??null,showRace:e=>ke(t,t.races.find(n=>n.race===e)),showSync:e=>ke(t,t.syncs.find(
n=>n.group===e)),setMarks(e){t.marks=e,A(t)},search(e){return t.dom.search.value=e,At(t,e)},focus:()=>t.dom.canvas.focus({preventScroll:!0}),resize:()=>B(t),boxOf:e=>Tr(
t,e),stats:()=>({frames:t.script.length,script:[...t.script]}),destroy:()=>kr(t)}}function kr(t){t.isGone=!0,cancelAnimationFrame(t.pending);for(let o of t.cleanups.
splice(0))o();t.dom.host.remove()}function ke(t,o){if(o){if(o.event>=0)t.focused=o.event,C(t,o.event);else if(o.at<t.view[0]||o.at>t.view[1]){let e=(t.view[1]-t.
view[0])/2;mt(t,[o.at-e,o.at+e])}A(t)}}function Tr(t,o){let e=O(t),n=t.data.lane[o];if(t.rows.row[o]>=t.layout.shown[n])return null;let r=e.x(t.data.start[o]),s=t.
data.dur[o]*e.scale;return{x:r,y:e.y(n,t.rows.row[o]),width:s,height:E-1}}function Re(t,o){let e=Sr(o);t.replaceChildren(e.root);let n=Ir(e),r=()=>{Rt(o.get("_picture"),!0),Rr(e.content,o.get("_panel")),e.root.dataset.updates=String(o.
get("_panel").number??0)},s=()=>{let l=o.get("_ended");e.root.dataset.state=l?"ended":"live";for(let f of e.buttons)f.hidden=!!l;e.note.textContent=l||o.get("_h\
int")},c=[["msg:custom",(l,f)=>{l?.kind==="timeline"?n.show(l.step??0,f[0]):l?.kind==="note"&&(e.note.textContent=l.text??"")}],["change:_panel",r],["change:_en\
ded",s]];for(let[l,f]of c)o.on(l,f);return r(),s(),Ie(o,"timeline"),()=>{for(let[l,f]of c)o.off(l,f);n.destroy(),Rt(o.get("_picture"),!1)}}function Ie(t,o){try{
t.send({kind:o,view:uo()})}catch{}}function Sr(t){let o=x("span",{class:"cl-watch-hint"}),e=(f,u)=>()=>{o.textContent=u,Ie(t,f)},n=[x("button",{type:"button",onclick:e(
"record","Recording is requested.")},"Record now"),x("button",{type:"button",onclick:e("stop","A stop is requested.")},"Stop watching")],r=x("div",{class:"cl-wa\
tch-content"}),s=x("h4",{hidden:!0}),a=x("div",{class:"cudalens cl-watch-timeline",hidden:!0}),c=x("div",{class:"cl-watch-tools"},...n,o);return{root:x("div",{class:"\
cudalens-watch"},c,r,s,a),content:r,buttons:n,note:o,heading:s,timeline:a}}function Rr(t,{tree:o}){if(!o)return;let e=W(t,"details",HTMLDetailsElement).map(n=>n.
open);t.replaceChildren(St(o));for(let[n,r]of W(t,"details",HTMLDetailsElement).entries())r.open=e[n]??r.open}function Ir({heading:t,timeline:o}){let e=null,n=0,
r=io(s=>{o.dataset.theme=s,e?.setTheme(s)});return{async show(s,a){n+=1;let c=n,l=new Uint8Array(a.buffer,a.byteOffset,a.byteLength),f=await co(l);c!==n||e&&o.matches(
":hover")||(e?.destroy(),t.hidden=o.hidden=!1,t.textContent=`Timeline of step ${s.toLocaleString("en")}: click it, then scroll to zoom, drag to move`,o.dataset.
theme=K(),o.dataset.step=String(s),e=Te(o,f,{theme:K()}))},destroy(){n+=1,r(),e?.destroy()}}}function _r({model:t,el:o}){return Re(o,t)}var cc={render:_r};export{cc as default};
