/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function l(e){let n=URL.createObjectURL(new Blob([e],{type:"text/javascript"}));try{return await import(n)}finally{URL.revokeObjectURL(n)}}function d(e){return new Promise(
n=>{let t=()=>{let o=e.get("_bundle");o&&(e.off("change:_bundle",t),n(o))};e.on("change:_bundle",t),t()})}function u(e,n){for(let t=0;t<2;t+=1)e.set("_bundle",n)}
var s={async render(e){let n=await d(e.model),t=Symbol.for(`cudalens bundle ${e.model.get("_bundle_id")}`),o=globalThis,r=o[t]?.text??n;o[t]??={text:r,bundle:l(
r).catch(c=>{throw delete o[t],c})};let{bundle:a}=o[t];return u(e.model,r),(await a).default.render(e)}};export{s as default};
