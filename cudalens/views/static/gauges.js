/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
var O="http://www.w3.org/2000/svg";function c(t,e={},...n){let o=document.createElement(t);for(let[r,i]of Object.entries(e))i==null||i===!1||(typeof i=="functio\
n"?o.addEventListener("click",i):o.setAttribute(r,i===!0?"":String(i)));return o.append(...n.filter(r=>r!=null)),o}function w(t,e={},...n){let o=document.createElementNS(
O,t);for(let[r,i]of Object.entries(e))o.setAttribute(r,String(i));return o.append(...n),o}function k(t,e,n){return[...t.querySelectorAll(e)].filter(o=>o instanceof n)}function P(t){return t>=999.5?t.toFixed(0):t.toPrecision(3)}var I=[[2**40,"TiB"],[2**30,"GiB"],[2**20,"MiB"],[2**10,"KiB"]];function g(t){if(t==null||Number.isNaN(t))return"-";if(t<0)return`-${g(-t)}`;for(let[e,n]of I)if(t>=.9995*e)return`${P(t/e)} ${n}`;return`${t.toFixed(0)} B`}function v(t){
return t==null||Number.isNaN(t)?"-":t>0&&t<.1?"<0.1 %":t<9.95?`${t.toFixed(1)} %`:`${t.toFixed(0)} %`}function S(){return`${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`}function B(t){return t?k(document,`[data-cudalens-static="${CSS.escape(t)}"]`,HTMLElement):[]}function y(t,e){let n=B(t).map(r=>r.closest(".jp-OutputArea-child")??
r),o=n.length>1?n[0].nextElementSibling:null;o instanceof HTMLElement&&o.nextElementSibling===n[1]&&n.push(o);for(let r of n)r.style.display=e?"none":""}var E={comm_prefixes:["nccl","ncclDev","rccl"],groups:[{key:"kernel",label:"Kernel",color:"#009e73",cats:["kernel"]},{key:"comm",label:"Communication",color:"#d\
55e00",cats:[]},{key:"memory",label:"Copy, set",color:"#f0e442",cats:["gpu_memcpy","gpu_memset"]},{key:"runtime",label:"CUDA call",color:"#e69f00",cats:["cuda_r\
untime","cuda_driver","privateuse1_runtime","privateuse1_driver","mtia_runtime","xpu_runtime"]},{key:"op",label:"CPU op",color:"#56b4e9",cats:["cpu_op"]},{key:"\
range",label:"Range",color:"#cc79a7",cats:["user_annotation","gpu_user_annotation"]},{key:"python",label:"Python",color:"#c0cad6",cats:["python_function"]},{key:"\
sync",label:"Sync, overhead",color:"#0072b2",cats:["cuda_sync","overhead"]},{key:"other",label:"Other",color:"#6b6f76",cats:[]}],light:{bg:"#ffffff",gutter:"#f6\
f8fa",text:"#1b1f24",muted:"#59636e",line:"#d0d7de",lineSoft:"#eaeef2",laneOdd:"#ffffff",band:"#0072b2",bandAlpha:.06,accent:"#0b62c4",rangeAlpha:.14,arrow:"#6e\
3c00",dim:"#d9dee4",tip:"#1b1f24",tipText:"#ffffff",field:"#ffffff",ink:"#000000",shades:[["#ffffff",0],["#ffffff",.14],["#ffffff",.22],["#000000",.08],["#fffff\
f",.32]]},dark:{bg:"#111418",gutter:"#15191e",text:"#e6e9ed",muted:"#9aa5b1",line:"#343b44",lineSoft:"#242a31",laneOdd:"#111418",band:"#56b4e9",bandAlpha:.07,accent:"\
#6cb6ff",rangeAlpha:.18,arrow:"#ffd08a",dim:"#2b323a",tip:"#e6e9ed",tipText:"#111418",field:"#1b2026",ink:"#000000",shades:[["#000000",.06],["#000000",.16],["#0\
00000",.24],["#ffffff",.1],["#ffffff",.2]]}};var U=E;var it=U.light.shades.length;var pt=[[2**30,"GiB"],[2**20,"MiB"],[2**10,"KiB"],[1,"B"]];function N({unit:t,column:e},n){return n===void 0||Number.isNaN(n)?"-":e.endsWith("_bytes")?g(n):t==="%"?v(n):`${Math.round(n).toLocaleString("en-US")} ${t}`}var p=[];function $(){return p}function x(t){let{t:e,rows:n}=t??{};e===void 0||!n||p.some(o=>o.t===e)||(p.push({t:e,rows:n}),p.sort((o,r)=>o.t-r.t),p=p.slice(-240))}
function C(){p=[]}var H=5e3,_={width:150,height:24};function A(t,e){let n=R(e),o=j(()=>n("stop"));t.replaceChildren(o.root);let r=[],i=()=>{y(e.get("_picture"),!0),o.verdict.textContent=
V(e.get("_gpus"),e.get("_gauges")),r.forEach(X)},s=()=>{r=e.get("_gpus").map(f=>z(f,e.get("_gauges"))),o.cards.replaceChildren(...r.map(({node:f})=>f)),i()},a=f=>{
f?.kind==="history"&&(f.moments.forEach(x),i())},u=()=>W(o,e.get("_about")),m=()=>n("left");x(e.get("_moment")),s(),u();let l=[["msg:custom",a],["change:_gpus",
s],["change:_moment",i],["change:_about",u]];for(let[f,h]of l)e.on(f,h);n("history");let d=setInterval(()=>e.get("_about").ended||n("here"),H);return window.addEventListener(
"pagehide",m),()=>{clearInterval(d),window.removeEventListener("pagehide",m);for(let[f,h]of l)e.off(f,h);m(),y(e.get("_picture"),!1)}}function R(t){let e=S();return n=>{
try{t.send({kind:n,view:e})}catch{}}}function j(t){let e=c("span",{class:"cl-gauge-badge"}),n=c("strong",{}),o=c("div",{class:"cl-gauge-cards"}),r=c("ul",{class:"\
cl-gauge-notes"}),i=c("span",{}),s=c("button",{type:"button",onclick:t},"Stop");return{root:c("div",{class:"cudalens-gauges"},c("p",{class:"cl-gauge-verdict"},e,
n),o,r,c("p",{class:"cl-gauge-about"},c("span",{},c("span",{class:"cl-gauge-dot"}),i),s)),badge:e,verdict:n,cards:o,notes:r,about:i,button:s}}function W(t,{badge:e="",
about:n="",notes:o=[],ended:r=""}){t.badge.textContent=e,t.about.textContent=n,t.notes.replaceChildren(...o.map(i=>c("li",{},i))),t.root.dataset.state=r?"ended":
"live",t.button.hidden=!!r}function z(t,e){let n=e.map(D),o=c("p",{class:"cl-gauge-slowed"}),r=c("h4",{"aria-level":3},c("span",{class:"cl-gauge-label"},t.label),
` ${t.name}`),i=c("article",{class:"cl-gauge-card"},r,...n.map(s=>s.node),o);return{gpu:t,rows:n,slowed:o,node:i}}function D(t,e){let n=c("span",{class:"cl-gaug\
e-value"},"-"),o=c("div",{}),r=w("path",{fill:"none",stroke:"currentColor"}),i=`0 0 ${_.width} ${_.height}`,s=w("svg",{class:"cl-gauge-spark",viewBox:i,preserveAspectRatio:"\
none"},r),a=c("div",{class:"cl-gauge"},c("span",{class:"cl-gauge-title"},t.title),n,s,c("div",{class:`cl-gauge-bar cl-gauge-${e}`},o));return{gauge:t,node:a,value:n,
fill:o,line:r}}function b(t){return typeof t=="number"?t:null}function X({gpu:t,rows:e,slowed:n},o){let r=$().filter(s=>s.rows.length>o).map(s=>s.rows[o]),i=r.at(
-1);i&&(e.forEach(({gauge:s,value:a,fill:u,line:m},l)=>{let d=r.map(M=>b(M[l])),f=t.full[s.column]||Math.max(...d.filter(M=>M!==null),0)||1,h=T(s,b(i[l]),t);a.textContent!==
h&&(a.textContent=h),a.title=h,u.style.width=`${Math.min(100,Math.max(0,100*(b(i[l])??0)/f)).toFixed(1)}%`,m.setAttribute("d",q(d,f))}),n.textContent=i[e.length]?
`clocks throttled by ${i[e.length]}`:"")}function T(t,e,n){if(e===null)return"-";let o=N(t,e),r=n.full[t.column];return t.column==="memory_used_bytes"&&r?`${o} \
of ${g(r)}`:o}function q(t,e){let{width:n,height:o}=_,r=n/Math.max(t.length-1,1),i=t.flatMap((s,a)=>{if(s===null)return[];let u=o-1-(o-2)*Math.min(1,Math.max(0,
s/e));return[`${(a*r).toFixed(1)} ${u.toFixed(1)}`]});return i.length?`M${i.join("L")}`:"M0 0"}function V(t,e){let n=$().at(-1)?.rows??[];if(!t.length||!n.length)
return"No GPU is being read";let o=n.map(l=>b(l[0])),r=0;for(let[l,d]of o.entries())(d??-1)>(o[r]??-1)&&(r=l);let i=t[r]??t[0],s=e.slice(0,4).map((l,d)=>T(l,b(n[r][d]),
i)),a=o[r];a!==null&&(s[0]=a?`busy ${s[0]}`:"idle");let u=s.filter(l=>l!=="-").join(", ")||"no value",m=n.length>1?`; ${n.length} GPUs, ${a?"this one the busies\
t":"none busier"}`:"";return`${i.label}: ${u}${m}`}function K({model:t}){x(t.get("_moment")),t.on("change:_moment",()=>x(t.get("_moment"))),t.on("change:_gpus",C)}function Y({model:t,el:e}){return A(e,t)}var Pt={
initialize:K,render:Y};export{Pt as default};
