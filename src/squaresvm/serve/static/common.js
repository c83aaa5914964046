// What all pages share: asking the server, and putting text into the page (never HTML).

const TOKEN = "squaresvm-token";

export async function ask(path, body, headers = {}) {
  const options = { method: body === undefined ? "GET" : "POST", headers: { ...headers } };
  const token = sessionStorage.getItem(TOKEN);
  if (token) options.headers.authorization = `Bearer ${token}`;
  if (body !== undefined) {
    options.headers["content-type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  const value = await answer.json();
  if (answer.ok) return value;
  if (answer.status === 401 || answer.status === 403) wantToken(value.error);
  throw new Error(value.error);
}

export function element(kind, properties = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function drawing(kind, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

export function fill(id, ...children) {
  byId(id).replaceChildren(...children);
}

export function table(columns, rows, caption, frame = "wide") {
  const numeric = columns.map((_, at) => rows.length > 0 && rows.every((row) => /^[-−]?[\d,.]+(e−?\d+)?$/.test(row[at])));
  const kind = (at) => (numeric[at] ? "number" : "");
  const head = columns.map((name, at) => element("th", { scope: "col", className: kind(at) }, name));
  const body = rows.map((row) =>
    element("tr", {}, ...row.map((cell, at) => element("td", { className: kind(at) }, cell instanceof Node ? cell : String(cell)))));
  const made = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  if (caption) made.prepend(element("caption", {}, caption));
  return element("div", { className: frame, tabIndex: 0, role: "region", "aria-label": caption || columns.join(", ") }, made);
}

export function pairs(rows) {
  const lines = rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)));
  return element("table", { className: "pairs" }, element("tbody", {}, ...lines));
}

export function figure(value, caption) {
  return element("div", { className: "figure" }, element("b", {}, value), element("span", {}, caption));
}

export const percent = (value) => `${(100 * value).toFixed(1)} %`;
export const power = (value) => (value === null ? "not finite" : value === 0 ? "0" : value.toExponential(1).replace("e-", "e−").replace("e+", "e"));
export const plain = (value, digits = 4) => (Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(digits)).toString());
export const moment = (text) => text.replace("T", " ").slice(0, 19);
export const counted = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

export function milliseconds(seconds) {
  const ms = 1000 * seconds;
  return ms >= 1000 ? `${(ms / 1000).toFixed(2)} s` : ms >= 100 ? `${ms.toFixed(0)} ms` : `${ms.toPrecision(2)} ms`;
}

function wantToken(reason) {
  if (byId("token")) return;
  const field = element("input", { type: "password", id: "token", autocomplete: "off" });
  const form = element("form", { className: "row", onsubmit: (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, field.value.trim());
    location.reload();
  } }, element("label", { className: "grow" }, "Token", field), element("button", {}, "Use this token"));
  const text = element("p", {}, `${reason[0].toUpperCase()}${reason.slice(1)}. It is kept until this tab is closed.`);
  document.querySelector("main").prepend(element("section", {}, element("h2", {}, "This page needs a token"), text, form));
  field.focus();
}
