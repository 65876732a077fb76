// Makes one tree like another and leaves alone what is the same, so that focus, scroll and selection stay.
const OWN = new Set(["open", "data-live-state"]); // attributes that belong to the reader, not to the server

export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!OWN.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.matches("input, textarea, select")) return; // what was typed stays
  const keyed = new Map();
  for (const child of old.children) {
    if (keyOf(child)) keyed.set(keyOf(child), child);
  }
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    const same = key ? keyed.get(key) : at && !keyOf(at) && alike(at, child) ? at : null;
    if (same && alike(same, child)) {
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      keyed.delete(key);
      morph(same, child);
    } else {
      old.insertBefore(document.importNode(child, true), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset?.key || "" : "";
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}
