#include <gtest/gtest.h>

#include <string>

#include "expressions.h"

namespace headworks::expr {
namespace {

struct Case {
  std::string_view text;
  std::string_view outcome;
};

template <std::size_t N>
void ExpectAll(const Case (&cases)[N]) {
  for (const Case& c : cases) EXPECT_EQ(Evaluated(c.text), c.outcome) << c.text;
}

std::string Repeated(std::string_view part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

TEST(Language, OperatorsBindAsTheSpecificationSays) {
  constexpr Case kCases[] = {
      {"1 + 2 * 3 - 4 / 2 % 3", "5"},
      {"(1 + 2) * 3", "9"},
      {"10 - 3 - 2", "5"},
      {"-2 * -3", "6"},
      {"- - 2", "2"},
      {"!true || true", "true"},
      {"true || false && false", "true"},
      {"(true || false) && false", "false"},
      {"1 < 2 == true", "true"},
      {"1 + 1 in [2]", "true"},
      {"false ? 1 : false ? 2 : 3", "3"},
      {"!has(x.none) && !(1 in x.list) == false", "true"},
      {"-params.count + 1", "-2"},
      {"[[1, 2], [3]][0][1]", "2"},
      {"{'a': {'b': 1}}.a.b", "1"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"has(needs['build-x86']) && has(x['map']) && !has(x.map['q'])", "true"},
      {"1 <= 1 && 1 >= 1 && !(2 <= 1) && !(1 >= 2) && 'a' <= 'b' && b'b' >= b'a'", "true"},
      {"false < true && timestamp(0) < timestamp(1) && duration('2s') > duration('1s')", "true"},
      {"1 < 1.5 && 2u > 1 && 1.5 < 2u && 1u < 2.0 && -1 < 0u && 0u > -1 && 2.5 > 2", "true"},
      {"0.0 / 0.0 < 1.0 || 0.0 / 0.0 >= 1.0 || 0.0 / 0.0 == 0.0 / 0.0", "false"},
      {"1.0 / -0.0 < 0.0 && -1.0 / 0.0 < 0.0 && 1e-400 == 0.0 && 1e400 == 1.0 / 0.0", "true"},
      {"{'a': 1, 2: 'b'} == {2u: 'b', 'a': 1.0} && {'a': 1} != {'b': 1} && {} != {1: 1}", "true"},
      {"x.map == {'k': 'v'} && {'k': 'v'} == x.map && x.list == [1, 2, 3] && [1] != [1, 2]",
       "true"},
      {"{'b': 1, 'a': 2}.map(k, k)", R"(["b","a"])"},
      {"{1: 2}.exists(k, k == 1) && params.all(k, k != '') && 'env' in params", "true"},
      {"[1, 'a'].map(a, [2].map(b, [3].map(c, [4].map(d, [5].map(e, [a, e])))))",
       "[[[[[[1,5]]]]],[[[[[\"a\",5]]]]]]"},
      {"'\\v\\U0001F431' == '\\x0b🐱' && b'\\v' == b'\\013'", "true"},
      {".5 + 1e2 + 1.5e-1", "100.65"},
      {".y + 1", "8"},
      {"x.`map`.k", R"("v")"},
      {"[1, 2,]", "[1,2]"},
      {"{'a': 1,}", R"({"a":1})"},
      {"y // a comment\n + 1", "8"},
  };
  ExpectAll(kCases);
}

TEST(Language, SyntaxFaultsSayWhatIsMissing) {
  constexpr Case kCases[] = {
      {" ", "fault: the expression is empty; write one, e.g. true"},
      {"1 +", "fault: the expression ends where a value is needed"},
      {"* 2", "fault: unexpected '*' where a value is needed"},
      {"(1", "fault: unexpected end: a ')' is missing here"},
      {"[1", "fault: unexpected end: a list needs ',' between its elements and ']' at its end"},
      {"{1", "fault: unexpected end: an entry of a map is written \"key\": value"},
      {"{1: 2", "fault: unexpected end: a map needs ',' between its entries and '}' at its end"},
      {"y ? 1", "fault: unexpected end: 'condition ? a : b' needs its ':' here"},
      {"x[1", "fault: unexpected end: the index needs its ']' here"},
      {"size(1", "fault: unexpected end: the arguments need ',' between them and ')' behind them"},
      {"x.1",
       "fault: unexpected '.1'; the expression is complete before it, so an operator (&&, "
       "+, ==, ...) or quotes are missing"},
      {"x.",
       "fault: a dot needs a field name behind it, but there is end; other names go into "
       "brackets: x[\"name\"]"},
      {"x.`a", "fault: a field name in backticks needs its end: `a-b`"},
      {".1a",
       "fault: '.1a' is neither a number nor a name; names start with a letter, text goes "
       "into quotes"},
      {"0x", "fault: 0x needs hexadecimal digits"},
      {"1e", "fault: an exponent needs digits, e.g. 1e6"},
      {"'a", "fault: text that starts with ' needs ' at its end on the same line"},
      {"'''a'", "fault: text that starts with ''' needs ''' at its end"},
      {"'a\\q'",
       "fault: '\\q' is not an escape; write \\\\ for a backslash, or r'...' for text "
       "without escapes"},
      {"'\\ud800'",
       "fault: '\\u' is not an escape; write \\\\ for a backslash, or r'...' for text "
       "without escapes"},
      {"b'\\u0041'",
       "fault: '\\u' is not an escape; write \\\\ for a backslash, or r'...' for "
       "text without escapes"},
      {"9223372036854775808",
       "fault: an int is between -9223372036854775808 and 9223372036854775807; for larger numbers "
       "write a double (1e20)"},
      {"18446744073709551616u", "fault: an uint is at most 18446744073709551615u"},
      {"-1u", "fault: an uint has no sign; leave out the u"},
      {"a & b", "fault: '&' is not an operator; write '&&'"},
      {"a | b", "fault: '|' is not an operator; write '||'"},
      {"a # b", "fault: '#' has no meaning here; text goes into quotes"},
      {"\x01", "fault: a control character stands outside of quotes; remove it"},
      {"\xff", "fault: the expression is not UTF-8 text here"},
      {"package", "fault: 'package' is a reserved word and cannot be a name"},
      {"a.b{c: 1}", "fault: there are no message types here; a map is written {\"key\": value}"},
      {"has(y)", "fault: has() asks for one field: has(params.name) or has(needs[\"a-b\"])"},
      {"x.all(1, true)",
       "fault: all() is written list.all(x, x > 0): first a name for the element"},
      {"x.map(e)",
       "fault: unexpected ')': map() is written list.map(x, x * 2) or list.map(x, x > "
       "0, x * 2)"},
      {"x.filter(e, true, 1)", "fault: unexpected ',': filter() is written list.filter(x, x > 0)"},
      {"cel.bind(a, 1)", "fault: unexpected ')': bind() is written cel.bind(x, 1 + 2, x * x)"},
      {". 1", "fault: a name is needed here"},
  };
  ExpectAll(kCases);
}

TEST(Language, TypeFaultsSayWhatToWrite) {
  constexpr Case kCases[] = {
      {"1 + 1u",
       "fault: '+' does not take int and uint: numbers of different types are not mixed; "
       "write 1 + int(1u)"},
      {"params.rate * 2",
       "fault: '*' does not take double and int: numbers of different types are "
       "not mixed; write params.rate * 2.0"},
      {"params.rate % 2.0",
       "fault: '%' does not take double and double; only whole numbers have a "
       "remainder: int(params.rate) % int(2.0)"},
      {"params.env - 1",
       "fault: '-' does not take string and int; convert the text: int(params.env)"},
      {"2 < params.env",
       "fault: '<' does not take int and string; convert the text: int(params.env)"},
      {"null + 1",
       "fault: '+' does not take null and int; test for null first: null != null && ..."},
      {"params.tags < params.tags", "fault: '<' does not take list and list"},
      {"'a' in params.env",
       "fault: 'in' does not take string and string; on the right of 'in' is a "
       "list or a map; in text, look with text.contains(part)"},
      {"1 in params.tags", "fault: '1' is int, but the list has string, so it is never in it"},
      {"1 in params", "fault: '1' is int, but the keys are string, so it is never in it"},
      {"params.env == null",
       "fault: 'params.env' is string and 'null' is null: they are never equal"},
      {"true == 'true'",
       "fault: 'true' is bool and ''true'' is string: they are never equal; leave "
       "out the quotes: true or false"},
      {"params.count && true",
       "fault: 'params.count' is int, but a bool is needed; compare it with something, e.g. x > 0"},
      {"params.env ? 1 : 2",
       "fault: 'params.env' is string, but a bool is needed; compare it with "
       "something, e.g. x != \"\""},
      {"-1u == -params.env", "fault: an uint has no sign; leave out the u"},
      {"-uint(1)", "fault: '-' does not take uint; write -int(...)"},
      {"params.count == params.env",
       "fault: 'params.count' is int and 'params.env' is string: they "
       "are never equal; convert one: string(params.count)"},
      {"params.env <= 1",
       "fault: '<=' does not take string and int; convert the text: int(params.env)"},
      {"true >= 1", "fault: '>=' does not take bool and int"},
      {"'a' / 'b'", "fault: '/' does not take string and string"},
      {"size(1, 2, 3, 4, 5)",
       "fault: there is no size(int, int, int, int, int); it is called size(string), size(bytes), "
       "size(list), size(map), string.size(), bytes.size(), list.size(), map.size()"},
      {"params.env.first", "fault: 'params.env' is string and has no field 'first'"},
      {"params.env[0]",
       "fault: 'params.env' is string and has no elements; write text.charAt(index)"},
      {"params.tags['a']",
       "fault: a list is indexed by a number, counted from 0, but ''a'' is string"},
      {"params[1]", "fault: keys are string, but '1' is int"},
      {"params['evn']", "fault: 'params' has no field 'evn', did you mean 'env'?"},
      {"has(params.evn)", "fault: 'params' has no field 'evn', did you mean 'env'?"},
      {"{1.5: 1}", "fault: a key of a map is a string, int, uint or bool, but '1.5' is double"},
      {"params.count.map(e, e)",
       "fault: map() goes over a list or a map, but 'params.count' is int"},
      {"[1].filter(e, e)",
       "fault: 'e' is int, but a bool is needed; compare it with something, "
       "e.g. x > 0"},
      {"params.env.contains(1)",
       "fault: there is no string.contains(int); it is called string.contains(string)"},
      {"contains('a', 'b')",
       "fault: there is no contains(string, string); it is called string.contains(string)"},
      {"params.env.upperAsci()",
       "fault: there is no function 'upperAsci', did you mean 'upperAscii'?"},
      {"'a'.matches('[')", "fault: '[' is not a regular expression of RE2: missing ]: ["},
      {"timestamp('2026-02-30T00:00:00Z')",
       "fault: '2026-02-30T00:00:00Z' is out of range or not a timestamp; write it like "
       "\"2026-01-31T13:45:00Z\" or \"2026-01-31T13:45:00.5+02:00\""},
      {"duration('5')",
       "fault: '5' is not a duration; write numbers with units (d, h, m, s, ms, us, "
       "ns) like \"1h30m\" or \"-1.5s\""},
      {"timestamp(0).getHours('Europe/Berln')",
       "fault: there is no time zone 'Europe/Berln'; write a name like \"Europe/Berlin\" or a "
       "distance like \"+02:00\""},
      {"needs.build-x86.output.n + q",
       "fault: '-' means minus here; the field is written needs[\"build-x86\"] (to subtract, put "
       "spaces around the '-') | there is no variable 'q'; text goes into quotes (\"q\"), "
       "variables "
       "are needs, params, x, y"},
  };
  ExpectAll(kCases);
}

TEST(Language, NullableTypesTakeNullAndTheirOwn) {
  constexpr Case kCases[] = {
      {"params.note == null", "true"},
      {"params.note == 'x'", "false"},
      {"params.note == 1",
       "fault: 'params.note' is string or null and '1' is int: they are never "
       "equal; convert one: int(params.note)"},
      {"(y > 0 ? null : 1) == null", "true"},
      {"params.note.size()",
       "error: 'params.note.size()': size() does not take null; test for null first: params.note "
       "!= "
       "null && ..."},
  };
  ExpectAll(kCases);
}

TEST(Language, DynamicValuesFailWhereTheyAreUsed) {
  constexpr Case kCases[] = {
      {"x.list + 1", "error: 'x.list + 1': '+' does not take list and int"},
      {"y + 1.5",
       "error: 'y + 1.5': '+' does not take int and double: numbers of different types "
       "are not mixed; write double(y) + 1.5"},
      {"x.txt", "error: 'x.txt': 'x' has no key 'txt', did you mean 'text'?"},
      {"x['null'].a",
       "error: 'x['null'].a': 'x['null']' is null, so it has no field 'a'; test for "
       "null first: x['null'] != null && ..."},
      {"'a' in x['null']",
       "error: ''a' in x['null']': 'in' does not take string and null; test for null first: "
       "x['null'] != null && ..."},
      {"x['null'][0]",
       "error: 'x['null'][0]': a list or a map is needed before '[', but this is null; test for "
       "null first: x['null'] != null && ..."},
      {"x['null'].all(v, v)",
       "error: 'x['null'].all(v, v)': all() goes over a list or a map, not null; test for null "
       "first: x['null'] != null && ..., in 'x['null']'"},
      {"y.a", "error: 'y.a': 'y' is int and has no field 'a'"},
      {"y[0]", "error: 'y[0]': a list or a map is needed before '[', but this is int"},
      {"x.list['a']", "error: 'x.list['a']': a list is indexed by a whole number, not by string"},
      {"x.list[1.5]", "error: 'x.list[1.5]': a list is indexed by a whole number, not by double"},
      {"x.list[-1]",
       "error: 'x.list[-1]': index -1 is out of range: the list has 3 elements, "
       "counted from 0"},
      {"x.list[2u] + x.list[dyn(1.0)]", "5"},
      {"x.map[1]",
       "error: 'x.map[1]': keys of JSON objects are strings, not int; write string(...)"},
      {"{1: 2}[dyn(3)]",
       "error: '{1: 2}[dyn(3)]': there is no such key; test with 'key in map' first"},
      {"{1: 2}[1u]", "2"},
      {"{dyn('a'): 1, 'a': 2}",
       "error: '{dyn('a'): 1, 'a': 2}': the key is in the map twice, in ''a''"},
      {"{dyn(1.5): 1}",
       "error: '{dyn(1.5): 1}': a key of a map is a string, int, uint or bool, but "
       "this is double, in 'dyn(1.5)'"},
      {"!y", "error: '!y': a bool is needed, but this is int, in 'y'"},
      {"-x.text", "error: '-x.text': '-' does not take string"},
      {"y ? 1 : 2", "error: 'y ? 1 : 2': a bool is needed, but this is int, in 'y'"},
      {"y.map(e, e)", "error: 'y.map(e, e)': map() goes over a list or a map, not int, in 'y'"},
      {"y.all(e, e)", "error: 'y.all(e, e)': all() goes over a list or a map, not int, in 'y'"},
      {"x.list.filter(e, e)",
       "error: 'x.list.filter(e, e)': a bool is needed, but this is int, in 'e'"},
      {"x.list.exists_one(e, e)",
       "error: 'x.list.exists_one(e, e)': a bool is needed, but this is int, in 'e'"},
      {"x.list.exists(e, e)",
       "error: 'x.list.exists(e, e)': a bool is needed, but this is int, in 'e'"},
      {"x.text > y",
       "error: 'x.text > y': '>' does not take string and int; convert the text: "
       "int(x.text)"},
      {"x.list > x.list", "error: 'x.list > x.list': '>' does not take list and list"},
      {"y in y",
       "error: 'y in y': 'in' does not take int and int; on the right of 'in' is a list or "
       "a map; in text, look with text.contains(part)"},
      {"y.startsWith('a')",
       "error: 'y.startsWith('a')': startsWith() does not take (int, string); it is called "
       "string.startsWith(string)"},
      {"has(y.a)", "error: 'has(y.a)': 'y' is int and has no field 'a'"},
      {"x.text.matches(x.text + '(')",
       "error: 'x.text.matches(x.text + '(')': 'tëxt(' is not a "
       "regular expression of RE2: missing ): tëxt("},
  };
  ExpectAll(kCases);
}

TEST(Language, AndAndOrAbsorbErrors) {
  constexpr Case kCases[] = {
      {"x.none == 1 || true", "true"},
      {"false && x.none == 1", "false"},
      {"x.none == 1 && false", "false"},
      {"x.none == 1 || false",
       "error: 'x.none == 1 || false': 'x' has no key 'none'; ask with has() "
       "or 'in' first, in 'x.none'"},
      {"dyn(1) && true && x.none",
       "error: 'dyn(1) && true && x.none': a bool is needed, but this is "
       "int, in 'dyn(1)'"},
      {"x.list.all(e, e / 0 == 1 || e < 3)",
       "error: 'x.list.all(e, e / 0 == 1 || e < 3)': division by zero, in 'e / 0'"},
      {"x.list.exists(e, 6 / (e - 2) == 6)", "true"},
  };
  ExpectAll(kCases);
}

TEST(Language, IntegersNeverWrapAround) {
  constexpr Case kCases[] = {
      {"9223372036854775807 + y - 6",
       "error: '9223372036854775807 + y - 6': the result is out of range, in '9223372036854775807 "
       "+ "
       "y'"},
      {"-9223372036854775807 - y", "error: '-9223372036854775807 - y': the result is out of range"},
      {"9223372036854775807 * y", "error: '9223372036854775807 * y': the result is out of range"},
      {"-9223372036854775808 / dyn(-1)",
       "error: '-9223372036854775808 / dyn(-1)': the result is out of range"},
      {"-(-9223372036854775808)", "error: '-(-9223372036854775808)': the result is out of range"},
      {"0u - 1u", "error: '0u - 1u': the result is out of range"},
      {"18446744073709551615u * 2u",
       "error: '18446744073709551615u * 2u': the result is out of range"},
      {"1u / 0u", "error: '1u / 0u': division by zero"},
      {"1 % 0", "error: '1 % 0': remainder of a division by zero"},
      {"-7 / 2", "-3"},
      {"-7 % 2", "-1"},
      {"7u % 4u", "3"},
  };
  ExpectAll(kCases);
}

TEST(Language, ResultsAreJsonOrSayWhyNot) {
  constexpr Case kCases[] = {
      {"1.0 / 0.0", "error: '1.0 / 0.0': the result is +Inf, which JSON does not have"},
      {"[0.0 / 0.0]", "error: '[0.0 / 0.0]': the result is NaN, which JSON does not have"},
      {"9223372036854775808u",
       "error: '9223372036854775808u': the uint 9223372036854775808 is too "
       "large for JSON; write string(...)"},
      {"9223372036854775807u", "9223372036854775807"},
      {"int",
       "error: 'int': the result is a type, which is no text; compare it, e.g. type(x) == int"},
      {"{1: 'a', 2u: 'b', true: 'c'}", R"({"1":"a","2":"b","true":"c"})"},
      {"{1: 'a', '1': 'b'}",
       "error: '{1: 'a', '1': 'b'}': two keys are both '1' as text, and JSON "
       "has no others"},
      {"[b'', b'a', b'ab', b'abc', b'\\xff\\xfe']", R"(["","YQ==","YWI=","YWJj","//4="])"},
      // Beyond int64 a number is a double, but what is only passed on stays as it is.
      {"x.huge > 1.8e19", "true"},
      {"[x][0]['huge'] == 18446744073709551615.0", "true"},
      {"[x].map(e, {'h': e})[0].h.map", R"({"k":"v"})"},
      {"x.map", R"({"k":"v"})"},
      {"[timestamp(0), duration('-1.5s')]", R"(["1970-01-01T00:00:00Z","-1.5s"])"},
  };
  ExpectAll(kCases);
}

TEST(Language, NestingIsBounded) {
  // Each parenthesis is one level, and the outermost expression another.
  const auto nested = [](std::size_t n) { return Repeated("(", n) + "1" + Repeated(")", n); };
  const std::string refused =
      "fault: the expression is nested more than 200 deep; split it over several tasks or params";
  EXPECT_EQ(Evaluated(nested(kMaxExpressionDepth - 1)), "1");
  EXPECT_EQ(Evaluated(nested(kMaxExpressionDepth)), refused);
  EXPECT_EQ(Evaluated("1" + Repeated(" + 1", kMaxExpressionDepth - 1)), "200");
  EXPECT_EQ(Evaluated("1" + Repeated(" + 1", kMaxExpressionDepth)), refused);
  EXPECT_EQ(Evaluated(Repeated("!", kMaxExpressionDepth) + "true").substr(0, 5), "fault");
  EXPECT_EQ(Evaluated("x" + Repeated("[0]", kMaxExpressionDepth)), refused);
  EXPECT_EQ(Evaluated(Repeated("[", 100'00)), refused);
  // A chain of && is one level, however long.
  EXPECT_EQ(Evaluated("true" + Repeated(" && true", 5000)), "true");
}

TEST(Language, SizeIsBounded) {
  const std::string most = "true" + std::string(kMaxExpressionBytes - 4, ' ');
  EXPECT_EQ(Evaluated(most), "true");
  EXPECT_EQ(Evaluated(most + " "),
            "fault: the expression has 65537 bytes, at most 65536 are "
            "allowed; let a task compute it instead");
}

TEST(Language, MemoryIsBounded) {
  // Doubles its text 20 times: 16 MiB.
  std::string text = "'0123456789abcdef'";
  for (int i = 0; i < 20; ++i) text = "cel.bind(t, " + text + ", t + t)";
  const std::string over = "' needs more than 1000 bytes; let a task compute it instead";
  const auto outcome = Evaluated(text, {.max_cost = 1'000'000'000});
  EXPECT_TRUE(outcome.ends_with("' needs more than 8388608 bytes; let a task compute it instead"))
      << outcome.substr(0, 200);
  EXPECT_TRUE(Evaluated("x.list.map(a, x.list.map(b, x.list.map(c, x)))", {.max_bytes = 1000})
                  .ends_with(over));
  // Sharing makes it small on the way, and only its JSON large.
  std::string shared = "[1, 2, 3, 4]";
  for (int i = 0; i < 12; ++i) shared = "cel.bind(t, " + shared + ", [t, t, t, t])";
  EXPECT_NE(Evaluated(shared).find("needs more than"), std::string::npos);
  EXPECT_NE(Evaluated("string(" + shared + ")").find("needs more than"), std::string::npos);
  EXPECT_NE(Evaluated("'%s'.format([" + shared + "])").find("needs more than"), std::string::npos);
  EXPECT_NE(Evaluated(shared + " == " + shared).find("needs more than"), std::string::npos);
}

TEST(Language, CostIsNotAbsorbed) {
  const std::string loop = "x.list.all(a, x.list.all(b, x.list.all(c, a + b + c > 0)))";
  EXPECT_EQ(Evaluated(loop), "true");
  for (const std::string& text :
       {loop + " || true", "true && " + loop, "[1].exists(e, " + loop + ")", "!" + loop,
        loop + " ? 1 : 2", "[" + loop + "]"}) {
    EXPECT_NE(Evaluated(text, {.max_cost = 100}).find("needs more than 100 steps"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace headworks::expr
