import { ask, byId, element, fill } from "./common.js";

function operation(path, method, facts, schemas) {
  const title = element("summary", {}, element("span", { className: "method" }, method.toUpperCase()), " ", element("code", {}, path), ` ${facts.summary}`);
  const parts = [title];
  if (facts.description) parts.push(element("p", { className: "soft" }, facts.description));
  const headers = facts.parameters.filter((parameter) => parameter.in === "header").map((parameter) => parameter.name);
  if (headers.length) parts.push(element("p", {}, `Headers: ${headers.join(", ")}.`));
  if (facts.requestBody) {
    const name = facts.requestBody.content["application/json"].schema.$ref.split("/").pop();
    parts.push(element("p", {}, `Body: ${Object.keys(facts.requestBody.content).join(" or ")}`));
    parts.push(element("div", { className: "wide", tabIndex: 0, role: "region", "aria-label": `Schema of ${path}` },
      element("pre", {}, JSON.stringify(schemas[name], null, 2))));
  }
  const answers = Object.entries(facts.responses).map(([status, answer]) => element("li", {}, `${status}: ${answer.description}`));
  parts.push(element("ul", {}, ...answers));
  return element("details", {}, ...parts);
}

try {
  const found = await ask("/openapi.json");
  const all = Object.entries(found.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, facts]) => operation(path, method, facts, found.components.schemas)));
  fill("routes", ...all);
} catch (error) {
  byId("problem").textContent = error.message;
}
