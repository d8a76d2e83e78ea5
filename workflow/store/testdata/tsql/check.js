// Reads a JSON list of T-SQL batches from standard input and prints a JSON list
// of what is wrong with each: an empty list where nothing is.
'use strict';
const { ANTLRInputStream, CommonTokenStream } = require('antlr4ts');
const { TSQLGrammar, TSqlLexer } = require('antlr4ts-sql');

function faults(batch) {
  const found = [];
  const listener = {
    syntaxError(_recognizer, _symbol, line, column, message) {
      found.push(`line ${line}, column ${column}: ${message}`);
    },
  };
  // The lexer knows keywords in capitals only.
  const lexer = new TSqlLexer(new ANTLRInputStream(batch.toUpperCase()));
  lexer.removeErrorListeners();
  lexer.addErrorListener(listener);
  const parser = new TSQLGrammar.TSqlParser(new CommonTokenStream(lexer));
  parser.removeErrorListeners();
  parser.addErrorListener(listener);
  parser.tsql_file();
  return found;
}

let input = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => { input += chunk; });
process.stdin.on('end', () => {
  process.stdout.write(JSON.stringify(JSON.parse(input).map(faults)));
});
