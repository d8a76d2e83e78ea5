// Parses the Bicep files that are named and tells, as JSON, of each what is wrong
// and where; an empty list for one that is well-formed.
import fs from "node:fs";
import { createRequire } from "node:module";
import { Language, Parser } from "web-tree-sitter";

const grammar = createRequire(import.meta.url).resolve("tree-sitter-bicep/tree-sitter-bicep.wasm");

await Parser.init();
const parser = new Parser();
parser.setLanguage(await Language.load(grammar));

const found = {};
for (const file of process.argv.slice(2)) {
  const faults = (found[file] = []);
  (function look(node) {
    if (node.isError || node.isMissing) {
      faults.push(`line ${node.startPosition.row + 1}: ${node.text.slice(0, 60) || "something is missing"}`);
    }
    node.children.forEach(look);
  })(parser.parse(fs.readFileSync(file, "utf8")).rootNode);
}
console.log(JSON.stringify(found));
