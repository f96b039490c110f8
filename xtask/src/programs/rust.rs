//! Rust source as far as the lint needs it: tokens, calls with their arguments, and the texts that
//! arguments stand for. It is no parser; what it does not understand has no text.

use std::iter::Peekable;
use std::str::Chars;

/// Stands in a text for a part that is known only at run time.
pub const UNKNOWN: char = '\u{fffc}';

/// Words before a bracket that are no functions.
const KEYWORDS: &[&str] = &["else", "for", "if", "in", "let", "match", "return", "while"];

/// A piece of source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Its line, counted from 1.
    pub line: usize,
}

/// The kinds of tokens that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An identifier, a keyword or a number.
    Word(String),
    /// A string literal, without its escapes.
    Text(String),
    /// Any other character, a character literal included.
    Mark(char),
}

impl Token {
    fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }

    fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// What an argument stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text; [`UNKNOWN`] where `format!` puts something in.
    Text(String),
    /// An array or a tuple.
    List(Vec<Value>),
    /// Something else.
    Unknown,
}

/// A call `name(arguments)` or `path::name(arguments)`.
#[derive(Debug)]
pub struct Call<'a> {
    /// The function or method.
    pub name: &'a str,
    /// What stands before `::`, if anything.
    pub path: Option<&'a str>,
    /// Where it begins in the tokens of the file.
    pub at: usize,
    /// Its line.
    pub line: usize,
    /// The tokens of each argument.
    pub arguments: Vec<&'a [Token]>,
    /// What `.arg(...)` and `.args(...)` that follow directly add.
    pub added: Vec<&'a [Token]>,
}

/// A function with its body.
#[derive(Debug)]
pub struct Function<'a> {
    /// Its name.
    pub name: &'a str,
    /// The type whose method it is.
    pub owner: Option<&'a str>,
    /// Whether `#[test]` stands before it.
    pub is_test: bool,
    /// Where its body begins and ends in the tokens of the file.
    pub body: std::ops::Range<usize>,
}

/// Splits source into tokens; comments are left out.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: source.chars().peekable(), line: 1 };
    let mut tokens = Vec::new();
    while let Some(c) = lexer.next() {
        let line = lexer.line;
        let kind = match c {
            c if c.is_whitespace() => continue,
            '/' if lexer.rest.peek() == Some(&'/') => {
                while lexer.rest.peek().is_some_and(|c| *c != '\n') {
                    lexer.next();
                }
                continue;
            }
            '/' if lexer.rest.peek() == Some(&'*') => {
                lexer.block_comment();
                continue;
            }
            '"' => Kind::Text(lexer.text()),
            '\'' => {
                lexer.character_or_lifetime();
                Kind::Mark('\'')
            }
            c if c.is_alphanumeric() || c == '_' => lexer.word(c),
            c => Kind::Mark(c),
        };
        tokens.push(Token { kind, line });
    }
    tokens
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.next();
        self.line += usize::from(c == Some('\n'));
        c
    }

    fn block_comment(&mut self) {
        let (mut depth, mut before) = (1, ' ');
        self.next();
        while depth > 0 {
            let Some(c) = self.next() else { return };
            match (before, c) {
                ('*', '/') => depth -= 1,
                ('/', '*') => depth += 1,
                _ => {
                    before = c;
                    continue;
                }
            }
            before = ' ';
        }
    }

    /// A word, or the string literal whose prefix it is.
    fn word(&mut self, first: char) -> Kind {
        let mut word = String::from(first);
        while let Some(c) = self.rest.peek().copied().filter(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
            self.next();
        }
        match (word.as_str(), self.rest.peek()) {
            ("b" | "c", Some('"')) => {
                self.next();
                Kind::Text(self.text())
            }
            ("r" | "br" | "cr", Some('"' | '#')) => Kind::Text(self.raw_text()),
            _ => Kind::Word(word),
        }
    }

    /// The rest of a string literal, with its escapes resolved.
    fn text(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => match self.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('\n') => {
                        while self.rest.peek().is_some_and(|c| c.is_whitespace()) {
                            self.next();
                        }
                    }
                    Some(c @ ('"' | '\\' | '\'')) => text.push(c),
                    // a number, which no program has in its name
                    _ => text.push(UNKNOWN),
                },
                c => text.push(c),
            }
        }
        text
    }

    fn raw_text(&mut self) -> String {
        let mut end = String::from("\"");
        while self.rest.peek() == Some(&'#') {
            self.next();
            end.push('#');
        }
        self.next();
        let mut text = String::new();
        while let Some(c) = self.next() {
            text.push(c);
            if text.ends_with(&end) {
                text.truncate(text.len() - end.len());
                break;
            }
        }
        text
    }

    fn character_or_lifetime(&mut self) {
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('\\'), _) => {
                self.next();
                self.next();
                while self.next().is_some_and(|c| c != '\'') {}
            }
            (Some(_), Some('\'')) => {
                self.next();
                self.next();
            }
            // a lifetime; its name is a word like any other
            _ => {}
        }
    }
}

/// A file with what its names are bound to.
#[derive(Debug)]
pub struct Source {
    tokens: Vec<Token>,
    /// Name, where it is bound, what to.
    bindings: Vec<(String, usize, Value)>,
    /// The bodies of all functions.
    bodies: Vec<std::ops::Range<usize>>,
}

impl Source {
    /// Reads source; with `tests_only`, from its first `#[cfg(test)]` on.
    pub fn read(source: &str, tests_only: bool) -> Self {
        let mut tokens = tokens(source);
        if tests_only {
            let is_start = |tokens: &[Token]| {
                tokens[0].word() == Some("cfg")
                    && tokens[1].is('(')
                    && tokens[2].word() == Some("test")
            };
            let start = tokens.windows(3).position(is_start).unwrap_or(tokens.len());
            tokens.drain(..start);
        }
        let mut source = Self { tokens, bindings: Vec::new(), bodies: Vec::new() };
        source.bindings = source.bound();
        source.bodies = source.functions().into_iter().map(|function| function.body).collect();
        source
    }

    /// All string literals, each with its place in the tokens.
    pub fn texts(&self) -> impl Iterator<Item = (usize, &str)> {
        self.tokens.iter().enumerate().filter_map(|(at, token)| match &token.kind {
            Kind::Text(text) => Some((at, text.as_str())),
            _ => None,
        })
    }

    /// The line of a token.
    pub fn line(&self, at: usize) -> usize {
        self.tokens[at].line
    }

    /// All calls, outer ones before those in their arguments.
    pub fn calls(&self) -> Vec<Call<'_>> {
        (0..self.tokens.len()).filter_map(|at| self.call(at)).collect()
    }

    fn call(&self, at: usize) -> Option<Call<'_>> {
        let token = &self.tokens[at];
        let name = token.word().filter(|word| !KEYWORDS.contains(word))?;
        let before = |back: usize| at.checked_sub(back).map(|at| &self.tokens[at]);
        if before(1).and_then(Token::word) == Some("fn") {
            return None;
        }
        let (arguments, mut end) = self.bracketed(at + 1)?;
        let path =
            before(1).filter(|token| token.is(':')).and_then(|_| before(3)).and_then(Token::word);
        let mut added = Vec::new();
        while self.tokens.get(end).is_some_and(|token| token.is('.')) {
            let Some((more, next)) = self.bracketed(end + 2) else { break };
            if matches!(self.tokens[end + 1].word(), Some("arg" | "args")) {
                added.extend(more);
            }
            end = next;
        }
        Some(Call { name, path, at, line: token.line, arguments, added })
    }

    /// The arguments in the brackets that open at `open`, and what comes after them.
    fn bracketed(&self, open: usize) -> Option<(Vec<&[Token]>, usize)> {
        if !self.tokens.get(open)?.is('(') {
            return None;
        }
        let end = self.closing(open);
        Some((split(&self.tokens[open + 1..end]), end + 1))
    }

    /// Where the bracket that opens at `open` closes.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0_i32;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            depth += nesting(token);
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }

    /// All functions with a body.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let words = |at: usize| self.tokens.get(at).and_then(Token::word);
        let types = self.types();
        let all = 0..self.tokens.len();
        all.filter(|at| words(*at) == Some("fn"))
            .filter_map(|at| {
                let name = words(at + 1)?;
                let mut depth = 0;
                let is_end = |token: &Token| {
                    let ends = depth == 0 && (token.is('{') || token.is(';'));
                    depth += nesting(token);
                    ends
                };
                let open = at + self.tokens[at..].iter().position(is_end)?;
                if !self.tokens.get(open)?.is('{') {
                    return None;
                }
                let attribute = at.checked_sub(4).map(|start| &self.tokens[start..at]);
                let is_test = attribute.is_some_and(|found| {
                    found[0].is('#') && found[1].is('[') && found[2].word() == Some("test")
                });
                let body = open..self.closing(open);
                let of_type = types.iter().find(|(_, block)| block.contains(&at));
                Some(Function { name, owner: of_type.map(|(name, _)| *name), is_test, body })
            })
            .collect()
    }

    /// The types that have `impl` blocks, each with the block.
    fn types(&self) -> Vec<(&str, std::ops::Range<usize>)> {
        let all = 0..self.tokens.len();
        all.filter(|at| self.tokens[*at].word() == Some("impl"))
            .filter_map(|at| {
                let header = self.tokens[at..].iter().take_while(|token| !token.is('{'));
                let open = at + header.clone().count();
                // the last name that is no parameter: `impl<T> Trait for Name<T> where ...`
                let mut depth = 0;
                let outside = header.filter(|token| {
                    depth += i32::from(token.is('<')) - i32::from(token.is('>'));
                    depth == 0
                });
                let words = outside.filter_map(Token::word).skip(1);
                let name = words.take_while(|word| *word != "where").last()?;
                Some((name, open..self.closing(open)))
            })
            .collect()
    }

    /// What `let`, `const`, `static` and `for ... in [...]` bind to texts.
    fn bound(&self) -> Vec<(String, usize, Value)> {
        let mut bindings = Vec::new();
        let tokens = &self.tokens;
        for (at, token) in tokens.iter().enumerate() {
            let end = match token.word() {
                Some("let" | "const" | "static") => ';',
                Some("for") => '{',
                _ => continue,
            };
            let is_equals = |token: &Token| match end {
                ';' => token.is('='),
                _ => token.word() == Some("in"),
            };
            let stop = |token: &Token| token.is(';') || token.is('{');
            let rest = &tokens[at..];
            let Some(equals) = rest.iter().position(|token| is_equals(token) || stop(token)) else {
                continue;
            };
            if !is_equals(&rest[equals]) {
                continue;
            }
            let is_name = |word: &&str| !matches!(*word, "mut" | "ref");
            let pattern = rest[1..equals].split(|token| token.is(':')).next().unwrap_or(&[]);
            let names: Vec<&str> = pattern.iter().filter_map(Token::word).filter(is_name).collect();
            let value = &rest[equals + 1..];
            let mut depth = 0;
            let length = value.iter().position(|token| {
                let here = depth == 0 && token.is(end);
                depth += nesting(token);
                here || depth < 0
            });
            let value = resolve(&value[..length.unwrap_or(0)], &|_| Value::Unknown);
            for (place, name) in names.iter().enumerate() {
                let value = match &value {
                    Value::Unknown => continue,
                    // for (a, b) in [(x, y), ...]
                    Value::List(items) if names.len() > 1 => {
                        let of_item = |item: &Value| match item {
                            Value::List(parts) => parts.get(place).cloned(),
                            _ => None,
                        };
                        Value::List(items.iter().filter_map(of_item).collect())
                    }
                    value => value.clone(),
                };
                bindings.push(((*name).to_owned(), at, value));
            }
        }
        bindings
    }

    /// The body of the innermost function around `at`.
    fn body_around(&self, at: usize) -> Option<&std::ops::Range<usize>> {
        self.bodies.iter().filter(|body| body.contains(&at)).max_by_key(|body| body.start)
    }

    /// What an argument at `at` stands for.
    pub fn value(&self, argument: &[Token], at: usize) -> Value {
        resolve(argument, &|name| {
            let body = self.body_around(at);
            let of_name = self.bindings.iter().filter(|(bound, ..)| bound == name);
            // the nearest before it in the same function, or a constant of the file
            let local = |(_, bound, _): &&(_, usize, _)| {
                body.is_some() && self.body_around(*bound) == body && *bound < at
            };
            let nearest = of_name.clone().rfind(local);
            let constant = |(_, bound, _): &&(_, usize, _)| self.body_around(*bound).is_none();
            let nearest = nearest.or_else(|| of_name.clone().find(constant));
            nearest.map_or(Value::Unknown, |(.., value)| value.clone())
        })
    }
}

fn nesting(token: &Token) -> i32 {
    match token.kind {
        Kind::Mark('(' | '[' | '{') => 1,
        Kind::Mark(')' | ']' | '}') => -1,
        _ => 0,
    }
}

/// Splits at the commas that are in no further bracket.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        depth += nesting(token);
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

fn resolve(tokens: &[Token], name: &dyn Fn(&str) -> Value) -> Value {
    let tokens = match tokens {
        [first, rest @ ..] if first.is('&') || first.is('*') => return resolve(rest, name),
        tokens => tokens,
    };
    // methods that leave a text what it is, `"cat".as_ref()`
    let ends = |rest: &[Token]| rest.first().is_none_or(|token| token.is('.'));
    match tokens {
        [Token { kind: Kind::Text(text), .. }, rest @ ..] if ends(rest) => {
            Value::Text(text.clone())
        }
        [format, bang, open, Token { kind: Kind::Text(text), .. }, ..]
            if format.word() == Some("format") && bang.is('!') && open.is('(') =>
        {
            Value::Text(without_placeholders(text))
        }
        [open, inner @ .., close]
            if (open.is('[') && close.is(']')) || (open.is('(') && close.is(')')) =>
        {
            Value::List(split(inner).into_iter().map(|item| resolve(item, name)).collect())
        }
        [Token { kind: Kind::Word(word), .. }] => name(word),
        _ => Value::Unknown,
    }
}

/// A format string with [`UNKNOWN`] for each `{...}`.
fn without_placeholders(format: &str) -> String {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.peek() == Some(&c) => text.extend(rest.next()),
            '{' => {
                while rest.next().is_some_and(|c| c != '}') {}
                text.push(UNKNOWN);
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_distinguished() {
        let source =
            "f(\"a\\\"b\", 'x', '\\'', r#\"c\"d\"#); // g(\"no\")\n/* \"no /* */ \" */ &'a b\"e\"";
        let all = tokens(source);
        let texts: Vec<&Kind> =
            all.iter().map(|token| &token.kind).filter(|k| matches!(k, Kind::Text(_))).collect();
        let expected = ["a\"b", "c\"d", "e"].map(|text| Kind::Text(text.to_owned()));
        assert_eq!(texts, expected.iter().collect::<Vec<_>>());
        assert_eq!(all.last().unwrap().line, 2);
    }

    #[test]
    fn finds_added_arguments_of_calls() {
        let source = Source::read(
            "fn run(x: u8) { const ALL: &[&str] = &[\"a\", \"b\"];\n\
             let words = format!(\"ping {{}} -c {n}\");\n\
             Command::new(\"sh\").env(\"A\", \"b\").args([\"-c\", words, other]); f(ALL, (1, 2)) }",
            false,
        );
        let calls = source.calls();
        let names: Vec<&str> = calls.iter().map(|call| call.name).collect();
        assert_eq!(names, ["new", "env", "args", "f"]);
        let call = &calls[0];
        assert_eq!((call.path, call.line, call.added.len()), (Some("Command"), 3, 1));
        let text = |text: &str| Value::Text(text.to_owned());
        let expected = vec![text("-c"), text("ping {} -c \u{fffc}"), Value::Unknown];
        assert_eq!(source.value(call.added[0], call.at), Value::List(expected));
        let list = Value::List(vec![text("a"), text("b")]);
        assert_eq!(source.value(calls[3].arguments[0], calls[3].at), list);
        assert_eq!(calls[3].arguments.len(), 2);
    }

    #[test]
    fn names_are_those_of_the_same_function() {
        let source = Source::read(
            "fn a() { let x = \"a\"; } fn b(x: &str) { f(x); let y = \"y\"; f(y); f(Z); }\n\
             fn c() { for (p, q) in [(\"1\", \"2\"), (\"3\", \"4\")] { f(q) } }\n\
             const Z: &str = \"z\";",
            false,
        );
        let calls = source.calls();
        let values: Vec<Value> =
            calls.iter().map(|call| source.value(call.arguments[0], call.at)).collect();
        let text = |text: &str| Value::Text(text.to_owned());
        let list = Value::List(vec![text("2"), text("4")]);
        assert_eq!(values, [Value::Unknown, text("y"), text("z"), list]);
    }

    #[test]
    fn functions_know_their_body_and_whether_they_are_tests() {
        let source = Source::read(
            "#[test]\nfn a() { b(); }\nfn c() -> [u8; 2]; impl<'a, T> A for X<T> where T: B { fn d() -> u8 { 7 } }",
            false,
        );
        let functions = source.functions();
        let reported: Vec<_> = functions.iter().map(|f| (f.name, f.owner, f.is_test)).collect();
        assert_eq!(reported, [("a", None, true), ("d", Some("X"), false)]);
        let call = &source.calls()[0];
        assert!(functions[0].body.contains(&call.at) && !functions[1].body.contains(&call.at));
    }

    #[test]
    fn production_code_is_left_out() {
        let source = "fn a() { f(\"x\") }\n#[cfg(test)]\nmod tests { fn b() { g(\"y\") } }";
        let texts = |only| {
            Source::read(source, only).texts().map(|(_, t)| t.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(true), ["y"]);
        assert_eq!(texts(false).len(), 2);
    }
}
