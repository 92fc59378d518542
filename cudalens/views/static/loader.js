/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */
async function n(t){let e=URL.createObjectURL(new Blob([t],{type:"text/javascript"}));try{return await import(e)}finally{URL.revokeObjectURL(e)}}var l={async render(t){
let e=Symbol.for(`cudalens ${t.model.get("_bundle_id")}`),a=globalThis;return a[e]??=n(t.model.get("_bundle")).catch(r=>{throw delete a[e],r}),(await a[e]).default.
render(t)}};export{l as default};
