/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function n(e){let t=URL.createObjectURL(new Blob([e],{type:"text/javascript"}));try{return await import(t)}finally{URL.revokeObjectURL(t)}}var r={async render(e){
let t=Symbol.for(`cudalens ${e.model.get("_bundle_id")}`),a=globalThis;return a[t]??=n(e.model.get("_bundle")),(await a[t]).default.render(e)}};export{r as default};
