"use strict";
const make = (tag, attributes = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), attributes);
  node.append(...children.filter(child => child !== null));
  return node;
};
let api = {};
const resolve = schema => schema && schema.$ref ? schema.$ref.slice(2).split("/").reduce((at, key) => at[key], api) : schema || {};

function sketch(schema, depth = 0) {
  schema = resolve(schema);
  if (schema.examples) return schema.examples[0];
  if ("default" in schema && schema.default !== null) return schema.default;
  if (schema.enum) return schema.enum[0];
  if (schema.anyOf) return sketch(schema.anyOf.find(one => resolve(one).type !== "null"), depth);
  switch (schema.type) {
    case "object": {
      const made = {};
      if (depth < 4) for (const name of schema.required || []) made[name] = sketch((schema.properties || {})[name], depth + 1);
      return made;
    }
    case "array": return schema.minItems && depth < 4 ? [sketch(schema.items, depth + 1)] : [];
    case "integer": case "number": return schema.minimum ?? 0;
    case "boolean": return true;
    case "string": return "text";
    default: return null;
  }
}

const kind = schema => schema.enum ? schema.enum.join(" | ") : schema.type === "array" && schema.items ? `list of ${kind(resolve(schema.items))}` : schema.title || schema.type || "anything";

function fields(schema) {
  schema = resolve(schema);
  const list = make("ul");
  for (const [name, raw] of Object.entries(schema.properties || {})) {
    const one = resolve(raw), kinds = (one.anyOf || [one]).map(resolve);
    const needed = (schema.required || []).includes(name) ? ", needed" : "";
    const item = make("li", {}, make("code", {textContent: name}), ` ${kinds.map(kind).join(" or ")}${needed}${one.description && !one.properties ? ": " + one.description : ""}`);
    for (const each of new Set(kinds.map(each => each.type === "array" ? resolve(each.items) : each).filter(each => each.properties))) {
      const more = make("details", {}, make("summary", {className: "what", textContent: `${each.title}: ${each.description || ""}`}));
      more.ontoggle = () => { if (more.children.length === 1) more.append(fields(each)); };
      item.append(more);
    }
    list.append(item);
  }
  return list;
}

function operation(path, method, op) {
  const parameters = (op.parameters || []).map(resolve);
  const body = op.requestBody && op.requestBody.content[Object.keys(op.requestBody.content)[0]].schema;
  const inside = make("div", {className: "in"}), inputs = [];
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    if (op.description) inside.append(make("p", {textContent: op.description}));
    for (const parameter of parameters) {
      const input = make("input", {placeholder: String(sketch(parameter.schema) ?? "")});
      inputs.push([parameter, input]);
      inside.append(make("label", {textContent: `${parameter.name} (${parameter.in}${parameter.required ? ", needed" : ""})`}), input);
    }
    let text = null;
    if (body) {
      text = make("textarea", {value: JSON.stringify(sketch(body), null, 2), spellcheck: false, ariaLabel: "Body"});
      inside.append(make("h3", {textContent: "Body"}), make("p", {className: "what", textContent: resolve(body).description || ""}), fields(body), text);
    }
    const answers = make("ul");
    for (const [status, raw] of Object.entries(op.responses)) {
      const answer = resolve(raw), media = Object.keys(answer.content || {})[0];
      const schema = media && resolve(answer.content[media].schema);
      answers.append(make("li", {}, make("code", {textContent: status}), ` ${answer.description || ""}${schema && schema.title ? ": " + schema.title : ""}`));
    }
    const shown = make("pre", {hidden: true}), send = make("button", {textContent: "Send"});
    send.onclick = async () => {
      let url = path;
      const query = new URLSearchParams(), headers = {};
      for (const [parameter, input] of inputs) {
        if (!input.value) continue;
        if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
        else if (parameter.in === "query") query.set(parameter.name, input.value);
        else headers[parameter.name] = input.value;
      }
      const token = document.getElementById("token").value;
      if (token) headers.Authorization = `Bearer ${token}`;
      if (method !== "get") headers["Content-Type"] = "application/openjobspec+json";
      shown.hidden = false;
      try {
        const answer = await fetch(url + (query.size ? `?${query}` : ""), {method: method.toUpperCase(), headers, body: text ? text.value : undefined});
        const said = await answer.text();
        let pretty = said;
        try { pretty = JSON.stringify(JSON.parse(said), null, 2); } catch { /* not JSON */ }
        shown.textContent = `${answer.status} ${answer.statusText}\n${pretty}`;
      } catch (error) { shown.textContent = String(error); }
    };
    inside.append(make("h3", {textContent: "Answers"}), answers, send, shown);
  };
  const node = make("details", {className: "op"},
    make("summary", {}, make("span", {className: `m ${method}`, textContent: method.toUpperCase()}), make("code", {textContent: path}), make("span", {className: "what", textContent: op.summary})), inside);
  node.id = op.operationId;
  node.ontoggle = fill;
  node.dataset.text = `${method} ${path} ${op.summary} ${op.tags}`.toLowerCase();
  return node;
}

fetch("openapi.json").then(answer => answer.json()).then(found => {
  api = found;
  document.getElementById("about").replaceChildren(`${api.info.description} Version ${api.info.version}; for programs: `, make("a", {href: "openapi.json", textContent: "openapi.json"}));
  const groups = new Map(api.tags.map(tag => [tag.name, []]));
  for (const [path, methods] of Object.entries(api.paths))
    for (const [method, op] of Object.entries(methods)) groups.get(op.tags[0]).push(operation(path, method, op));
  const list = document.getElementById("list");
  for (const [name, nodes] of groups) list.append(make("section", {}, make("h2", {textContent: name}), ...nodes));
  const linked = () => {
    const node = location.hash && document.getElementById(location.hash.slice(1));
    if (node && node.matches(".op")) { node.open = true; node.scrollIntoView(); }
  };
  window.onhashchange = linked;
  linked();
  document.getElementById("find").oninput = event => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const section of list.children) {
      let any = false;
      for (const node of section.querySelectorAll(".op")) {
        node.hidden = !words.every(word => node.dataset.text.includes(word));
        any ||= !node.hidden;
      }
      section.hidden = !any;
    }
  };
}).catch(error => { document.getElementById("about").textContent = `openapi.json cannot be read: ${error}`; });
