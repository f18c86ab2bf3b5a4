#include <gtest/gtest.h>

#include <string>

#include "expressions.h"

namespace headworks::expr {
namespace {

struct Case {
  std::string_view text;
  std::string_view outcome;
};

/// `outcome` of an error is without the expression that it starts with.
template <std::size_t N>
void ExpectAll(const Case (&cases)[N]) {
  for (const Case& c : cases) {
    std::string outcome = Evaluated(c.text);
    const std::string prefix = "error: '" + std::string(c.text) + "': ";
    if (outcome.starts_with(prefix)) outcome = "error: " + outcome.substr(prefix.size());
    EXPECT_EQ(outcome, c.outcome) << c.text;
  }
}

TEST(Functions, Conversions) {
  constexpr Case kCases[] = {
      {"int(3u) + int(-2.9) + int('-4') + int(timestamp('1970-01-01T00:00:09Z'))", "6"},
      {"int(1e19)", "error: the number is out of the range of int"},
      {"int(0.0 / 0.0)", "error: the number is out of the range of int"},
      {"int(9223372036854775808u)", "error: the number is out of the range of int"},
      {"int('')", "error: '' is not an int"},
      {"int(' 1')", "error: ' 1' is not an int"},
      {"uint(3) + uint(2.9) + uint('4')", "9"},
      {"uint(-1)", "error: the number is out of the range of uint"},
      {"uint(-1.0)", "error: the number is out of the range of uint"},
      {"uint(-0.5)", "0"},
      {"uint('-1')", "error: '-1' is not an uint"},
      {"double('1.5') + double(1) + double(2u)", "4.5"},
      {"double('x')", "error: 'x' is not a number"},
      {"bool('maybe')", "error: 'maybe' is not a bool; write true or false"},
      {"bool(true) && bool('1') && !bool('f')", "true"},
      {"string(1) + string(2u) + string(1.5) + string(true) + string('s') + string(b'b')",
       R"("121.5truesb")"},
      {"string(null) + string([1, {'b': 2, 'a': null}])", R"("null[1,{\"a\":null,\"b\":2}]")"},
      {"string(x.map) + string(x.list)", R"("{\"k\":\"v\"}[1,2,3]")"},
      {"string([0.0 / 0.0])",
       "error: 'string([0.0 / 0.0])': the result is NaN, which JSON does not have"},
      {"string(b'\\xff')", "error: the bytes are not UTF-8 text"},
      {"string(0.1 + 0.2) + ' ' + string(1e21) + ' ' + string(1.0 / 0.0) + ' ' + string(-1.0 / "
       "0.0)",
       R"("0.30000000000000004 1e+21 +Inf -Inf")"},
      {"bytes('a') + b'\\xff' == b'a\\377'", "true"},
      {"type(null) == null_type && type(x) == map && type(x.list) == list && type(1u) == uint",
       "true"},
      {"type(timestamp(0)) == google.protobuf.Timestamp && type(type(1)) == type", "true"},
      {"type(1.5) == double && type('a') == string && type(b'') == bytes && type(true) == bool",
       "true"},
  };
  ExpectAll(kCases);
}

TEST(Functions, TextCountsCharacters) {
  constexpr Case kCases[] = {
      {"'tëxt'.size() + size(b'tëxt') + [1, 2].size() + {'a': 1}.size() + size(x.map)", "13"},
      {"'tëxt'.charAt(1)", R"("ë")"},
      {"'tëxt'.charAt(4)", R"("")"},
      {"'tëxt'.charAt(5)",
       "error: index 5 is out of range: the text has 4 characters, counted from 0"},
      {"'tëxt'.charAt(-1)",
       "error: index -1 is out of range: the text has 4 characters, counted from 0"},
      {"'tëxtë'.indexOf('ë') * 10 + 'tëxtë'.indexOf('ë', 2)", "14"},
      {"'tëxtë'.indexOf('q')", "-1"},
      {"'tëxtë'.indexOf('')", "0"},
      {"'ab'.indexOf('a', 3)",
       "error: index 3 is out of range: the text has 2 characters, counted from 0"},
      {"'tëxtë'.lastIndexOf('ë') * 10 + 'tëxtë'.lastIndexOf('ë', 3)", "41"},
      {"'ab'.lastIndexOf('q')", "-1"},
      {"'ab'.lastIndexOf('')", "2"},
      {"'ab'.lastIndexOf('a', -1)",
       "error: index -1 is out of range: the text has 2 characters, counted from 0"},
      {"'tëxt'.substring(1) + 'tëxt'.substring(1, 2) + 'tëxt'.substring(4)", R"("ëxtë")"},
      {"'tëxt'.substring(2, 1)", "error: the end 1 is before the start 2"},
      {"'tëxt'.substring(5)",
       "error: index 5 is out of range: the text has 4 characters, counted from 0"},
      {"'tëxt'.substring(0, 5)",
       "error: index 5 is out of range: the text has 4 characters, counted from 0"},
      {"'tëxt\U0001F431'.reverse()", "\"\U0001F431txët\""},
      {"''.reverse()", R"("")"},
      {"'\\u00a0\\u3000\\t x y\\n\\u2009'.trim() + '|' + ' '.trim()", R"("x y|")"},
      {"'AbÄ'.lowerAscii() + 'aBä'.upperAscii()", R"("abÄABä")"},
      {"'abab'.replace('ab', 'x') + 'abab'.replace('ab', 'x', 1) + 'ab'.replace('b', '', 0)",
       R"("xxxabab")"},
      {"'aë'.replace('', '-')", R"("-a-ë-")"},
      {"'aaa'.replace('aa', 'b')", R"("ba")"},
      {"'a,b,c'.split(',', 2)", R"(["a","b,c"])"},
      {"'a,b'.split(',', 0)", "[]"},
      {"'a,b'.split(',', -1)", R"(["a","b"])"},
      {"'aë'.split('')", R"(["a","ë"])"},
      {"'aëb'.split('', 2)", R"(["a","ëb"])"},
      {"''.split(',')", R"([""])"},
      {"''.split('')", "[]"},
      {"['a', 'b'].join() + [].join(',') + x.list.map(e, string(e)).join('+')", R"("ab1+2+3")"},
      {"x.list.join(',') + [1.5, true, 2u].join('/')", R"("1,2,31.5/true/2")"},
      {"[y, [1]].join(',')",
       "error: join() takes a list of texts, numbers and booleans, but element 1 is list; write "
       "list.map(x, string(x)).join(...)"},
      {"params.tags.map(t, [t]).join()",
       "fault: join() takes a list of texts, numbers and booleans, but 'params.tags.map(t, [t])' "
       "is list<list<string>>; write list.map(x, string(x)).join(...)"},
      {"[{'a': 1}].join(',')",
       "fault: join() takes a list of texts, numbers and booleans, but '[{'a': 1}]' is "
       "list<map<string, int>>; write list.map(x, string(x)).join(...)"},
      {"['a', null].join()",
       "error: join() takes a list of texts, numbers and booleans, but element 1 is null; "
       "write "
       "list.map(x, string(x)).join(...)"},
      {"string(math.greatest([1, 2.5, 2u])) + string(math.least(3, 2u))", R"("2.52")"},
      {"math.greatest(x.list)", "3"},
      {"math.least([])", "error: an empty list has no least"},
      {"math.greatest([1, 'a'])", "error: math.greatest() takes numbers, and element 1 is string"},
      {"strings.quote('a\\n\"\\\\\\a')", R"("\"a\\n\\\"\\\\\\a\"")"},
      {"'abc'.contains('bc') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')", "true"},
      {"'abc'.contains('d') || 'abc'.startsWith('b') || 'abc'.endsWith('b')", "false"},
      {"matches('abc', '^a.c$') && 'abc'.matches(x.text.charAt(9 - 9).replace('t', 'b'))", "true"},
  };
  ExpectAll(kCases);
}

TEST(Functions, Format) {
  constexpr Case kCases[] = {
      {"'%s %s %s %s'.format([1, 'a', [1, 'b', null], {'k': 1.5, 'a': true}])",
       R"("1 a [1, b, null] {a: true, k: 1.5}")"},
      {"'%s %s %s'.format([timestamp(0), duration('1s'), b'x'])", R"("1970-01-01T00:00:00Z 1s x")"},
      {"'%s'.format([type(1)])", R"("int")"},
      {"'%d %d %d'.format([1, 2u, 1.5])", R"("1 2 1.5")"},
      {"'%f %.0f %.2e %e'.format([1.5, 2.5, 12345.678, 1])",
       R"("1.500000 2 1.23e+04 1.000000e+00")"},
      {"'%f %d %f'.format([1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0])", R"("Infinity -Infinity NaN")"},
      {"'%b %b %b %o %x %X'.format([5, 5u, true, 8, 255, -255])", R"("101 101 1 10 ff -FF")"},
      {"'%x %X'.format(['hi', b'\\xff'])", R"("6869 FF")"},
      {"'100%%'.format([])", R"("100%")"},
      {"'%d'.format(['a'])", "error: %d takes a number, not string"},
      {"'%f'.format([null])", "error: %f takes a number, not null"},
      {"'%b'.format(['a'])", "error: %b takes an int, uint or bool, not string"},
      {"'%o'.format([1.5])", "error: %o takes an int or uint, not double"},
      {"'%x'.format([true])", "error: %x takes an int, uint, string or bytes, not bool"},
      {"'%s %s'.format([1])", "error: the format uses more values than the 1 in the list"},
      {"'%s'.format([1, 2])", "error: the list has 2 values, but the format uses 1"},
      {"'%q'.format([1])",
       "error: '%q' is no clause of a format; there are %s %d %f %e %b %o %x "
       "%X, %.2f with digits, and %% for a percent sign"},
      {"'%'.format([1])",
       "error: '%' is no clause of a format; there are %s %d %f %e %b %o %x %X, "
       "%.2f with digits, and %% for a percent sign"},
      {"'%.100f'.format([0.5]).size()", "102"},
      {"'%.101f'.format([0.5])",
       "error: a precision in a format is a number up to 100, as in %.2f"},
      {"'%.f'.format([0.5])", "error: a precision in a format is a number up to 100, as in %.2f"},
  };
  ExpectAll(kCases);
}

TEST(Functions, Times) {
  constexpr Case kCases[] = {
      {"string(timestamp('0001-01-01T00:00:00Z')) + "
       "string(timestamp('9999-12-31T23:59:59.999999999Z'))",
       R"("0001-01-01T00:00:00Z9999-12-31T23:59:59.999999999Z")"},
      {"timestamp(x.text + '')",
       "error: 'tëxt' is out of range or not a timestamp; write it like \"2026-01-31T13:45:00Z\" "
       "or "
       "\"2026-01-31T13:45:00.5+02:00\""},
      {"timestamp(253402300800)", "error: the timestamp is out of range: years 0001 to 9999 exist"},
      {"timestamp('2026-01-31t13:45:00.25z') == timestamp('2026-01-31T15:45:00.250+02:00')",
       "true"},
      {"timestamp(0) - duration('1ns')", R"("1969-12-31T23:59:59.999999999Z")"},
      {"duration('1s') + timestamp(1)", R"("1970-01-01T00:00:02Z")"},
      {"timestamp(10) - timestamp(20)", R"("-10s")"},
      {"duration('1h') - timestamp(1)", "fault: '-' does not take duration and timestamp"},
      {"timestamp(253402300799) - timestamp(-62135596800)",
       "error: the duration is out of range: at most 292 years"},
      {"[duration('-0.5s'), duration('1d2h3m4.5s'), duration('+1us'), duration('1\xC2\xB5s'), "
       "duration('0')]",
       R"(["-0.5s","93784.5s","0.000001s","0.000001s","0s"])"},
      {"duration('1h' + x.text)",
       "error: '1htëxt' is not a duration; write numbers with units (d, h, m, s, ms, us, ns) like "
       "\"1h30m\" or \"-1.5s\""},
      {"duration('9223372036.854775807s') > duration('9223372036854775806ns')", "true"},
      {"duration('9223372036' + '.854775808s')",
       "error: the duration is out of range: at most 292 years"},
      {"duration('-1.5s').getMilliseconds() + duration('-1.5s').getSeconds()", "-501"},
      // The clocks go forward on 29 March 2026 at 01:00 UTC.
      {"timestamp('2026-03-29T00:59:59Z').getHours('Europe/Berlin') * 100 + "
       "timestamp('2026-03-29T01:00:00Z').getHours('Europe/Berlin')",
       "103"},
      {"timestamp('2026-01-01T02:00:00Z').getFullYear('America/New_York')", "2025"},
      {"timestamp('2024-12-31T12:00:00Z').getDayOfYear()", "365"},
      {"timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00')", "0"},
      {"timestamp(0).getHours(x.text)",
       "error: there is no time zone 'tëxt'; write a name like \"Europe/Berlin\" or a distance "
       "like "
       "\"+02:00\""},
      {"timestamp(0).getMinutes('+05:60')",
       "fault: there is no time zone '+05:60'; write a name like \"Europe/Berlin\" or a distance "
       "like \"+02:00\""},
  };
  ExpectAll(kCases);
}

TEST(Functions, CostGrowsWithTheText) {
  const std::string text = "cel.bind(t, '" + std::string(16'000, 'a') + "', ";
  for (const std::string call : {"t.size()",
                                 "t.contains('b')",
                                 "t.indexOf('b')",
                                 "t.lastIndexOf('b')",
                                 "t.charAt(5)",
                                 "t.substring(5)",
                                 "t.trim()",
                                 "t.reverse()",
                                 "t.lowerAscii()",
                                 "t.replace('b', 'c')",
                                 "t.split('b')",
                                 "[t].join()",
                                 "strings.quote(t)",
                                 "'%s'.format([t])",
                                 "t.matches('b')",
                                 "t.matches('b' + 'c')",
                                 "t + t",
                                 "t < t + 'b'",
                                 "t == t + '' && t == t",
                                 "bytes(t) == bytes(t)",
                                 "string(bytes(t))",
                                 "t.startsWith(t)",
                                 "t.endsWith(t)",
                                 "t in {t: 1}"}) {
    EXPECT_NE(Evaluated(text + call + ")", {.max_cost = 990}).find("needs more than 990 steps"),
              std::string::npos)
        << call;
    EXPECT_EQ(Evaluated(text + call + ")").find("error"), std::string::npos) << call;
  }
}

TEST(Functions, PatternsAreBounded) {
  // Exponential elsewhere, linear here.
  EXPECT_EQ(Evaluated("('" + std::string(5000, 'a') + "!').matches('^(a+)+$')"), "false");
  EXPECT_EQ(Evaluated("'a'.matches('((a{100}){100}){100}')").substr(0, 6), "fault:");
  EXPECT_EQ(Evaluated("'a'.matches('((a{100}){100})' + '{100}')").substr(0, 6), "error:");
}

}  // namespace
}  // namespace headworks::expr
