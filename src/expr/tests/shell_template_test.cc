#include "headworks/expr/shell_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "headworks/base/random.h"
#include "shells.h"

namespace headworks::expr {
namespace {

// Everything that shells give a meaning to.
const std::vector<std::string>& Attacks() {
  static const std::vector<std::string> kAttacks = {
      "plain",
      "two  words",
      " leading and trailing ",
      "'",
      "\"",
      "'\"'\"'",
      "\"; echo INJECTED; \"",
      "'; echo INJECTED; '",
      "; echo INJECTED",
      "$(echo INJECTED)",
      "`echo INJECTED`",
      "${HOME:-INJECTED}",
      "$HEADWORKS_V1",
      "${{ v }}",
      "\\",
      "\\\\",
      "\\n\\t\\x41",
      "trailing backslash\\",
      "line\nbreak",
      "\n\nEOF\necho INJECTED\n",
      "ends with breaks\n\n",
      "-n",
      "-e -rf --help",
      "--",
      "*",
      "/e*c/*",
      "?[a-z]{1,2}~",
      "a=1 b=2",
      "# no comment",
      "&& echo INJECTED || x | y & z > /dev/full < q",
      "(echo INJECTED)",
      "%s %d %n \\c",
      "!!",
      "\t\r\x01\x7f",
      "tëxt \xF0\x9F\x90\xB1",
      "a[$(echo INJECTED)]",
      "1+1",
      "EOF",
      "}",
      ")",
      "))",
      std::string(100'000, 'x') + "'\"$(",
  };
  return kAttacks;
}

// Where a value may stand, each script printing it between < and >.
const std::vector<std::string>& Places() {
  static const std::vector<std::string> kPlaces = {
      "printf '<%s>' ${{ v }}",
      "printf '<%s>' \"${{ v }}\"",
      "X=${{ v }}; printf '<%s>' \"$X\"",
      "X=\"${{ v }}\" && printf '<%s>' \"$X\"",
      "export X=${{ v }}; printf '<%s>' \"$X\"",
      "# it's ${{ not here }\nprintf '<%s>' ${{ v }} # don't",
      "echo 'it'\\''s' \"a\\\"b\" >/dev/null; printf '<%s>' ${{ v }}",
      "printf '<%s>' \"$(printf '%s.' ${{ v }})\" | sed '$s/\\.>$/>/'",
      "printf '<%s>' \"$(printf '%s.' \"${{ v }}\")\" | sed '$s/\\.>$/>/'",
      "f() { printf '<%s>' \"$1\"; }\nf ${{ v }}",
      "if true; then printf '<%s>' ${{ v }}; fi",
      "for x in ${{ v }}; do printf '<%s>' \"$x\"; done",
      "case ${{ v }} in ${{ v }}) printf '<%s>' ${{ v }} ;; *) echo no ;; esac",
      "x=$(case a in (a) printf q;; b) :;; esac); printf '<%s>' ${{ v }}",
      "{ printf '<'; cat <<EOF\n${{ v }}EOF2\nEOF\nprintf '>'; } | sed -z 's/EOF2\\n>$/>/'",
      "cat <<'Q' >/dev/null\n'it`s $(\nQ\nprintf '<%s>' ${{ v }}",
      "cat <<-Q >/dev/null\n\tit's \"\n\tQ\nprintf '<%s>' ${{ v }}",
      "(printf '<%s>' ${{ v }})",
      "sh -c 'printf \"<%s>\" \"$1\"' sh ${{ v }}",
      "printf '<%s>' \\\n  ${{ v }}",
      ("echo ${x:-'}'} \"${y:-\"}\"}\" $((1 + (2))) `echo \\`echo\\`` >/dev/null; "
       "printf '<%s>' ${{ v }}"),
      "printf %s ${{ v }} | { printf '<'; cat; printf '>'; }",
      "[ ${{ v }} = ${{ v }} ] && printf '<%s>' ${{ v }}",
      "echo x > /dev/null 2>&1; printf '<%s>' ${{ v }}",
  };
  return kPlaces;
}

const std::vector<std::string>& PlacesOfBash() {
  static const std::vector<std::string> kPlaces = {
      "a=(x ${{ v }}); printf '<%s>' \"${a[1]}\"",
      "[[ ${{ v }} == \"${{ v }}\" ]] && printf '<%s>' ${{ v }}",
      "[[ x =~ (x|y) && ( a < b ) ]] && printf '<%s>' ${{ v }}",
      "cat <<< ${{ v }} > /dev/null; printf '<%s>' ${{ v }}",
      "function f { local x=${{ v }}; printf '<%s>' \"$x\"; }; f",
      "for ((i = 0; i < 1; i++)); do printf '<%s>' ${{ v }}; done",
      "echo $'it\\'s' &> /dev/null; printf '<%s>' ${{ v }}",
      "cat <(printf '<%s>' ${{ v }})",
      "declare -r x=${{ v }}; printf '<%s>' \"$x\"",
      "((1 > 0)) && printf '<%s>' ${{ v }}",
      "case x in x) ;;& *) printf '<%s>' ${{ v }} ;; esac",
  };
  return kPlaces;
}

/// Every value in the first two places, a share of them in each other: a process for each.
void AttackAll(Shell shell, const std::vector<std::string>& places) {
  for (std::size_t p = 0; p < places.size(); ++p) {
    for (std::size_t a = 0; a < Attacks().size(); ++a) {
      if (p > 1 && (p + a) % 6 != 0) continue;
      ASSERT_EQ(Output(shell, places[p], Attacks()[a]), "<" + Attacks()[a] + ">")
          << Program(shell) << ": " << places[p];
    }
  }
}

TEST(ShellTemplate, EveryValueComesBackByteForByte) {
  AttackAll(Shell::kSh, Places());
  AttackAll(Shell::kBash, Places());
  AttackAll(Shell::kBash, PlacesOfBash());
}

TEST(ShellTemplate, RefusesWhereAShellExpandsNothing) {
  for (const Shell shell : {Shell::kSh, Shell::kBash}) {
    EXPECT_EQ(Refusal(shell, "echo 'x ${{ v }}'"),
              "stands inside single quotes, where the shell expands nothing;");
    EXPECT_EQ(Refusal(shell, "echo $'x ${{ v }}'"),
              "stands inside single quotes, where the shell expands nothing;");
    for (const char* name : {"'EOF'", "\"EOF\"", "\\EOF", "E'O'F"}) {
      EXPECT_EQ(Refusal(shell, "cat <<" + std::string(name) + "\n${{ v }}\nEOF\n"),
                "stands in a here-document with a quoted delimiter, where the shell expands "
                "nothing;");
    }
    EXPECT_EQ(Refusal(shell, "cat <<${{ v }}\nx\n"), "is the delimiter of a here-document;");
    EXPECT_EQ(Refusal(shell, "echo \\${{ v }}"), "has a backslash before it; leave it out, or");
    EXPECT_EQ(Refusal(shell, "echo \"\\${{ v }}\""), "has a backslash before it; leave it out, or");
  }
}

TEST(ShellTemplate, RefusesWhereAShellReadsCode) {
  for (const Shell shell : {Shell::kSh, Shell::kBash}) {
    for (const char* script : {"eval ${{ v }}",
                               "eval \"x $(echo ${{ v }})\"",
                               "trap \"${{ v }}\" EXIT",
                               "if true; then eval x ${{ v }}; fi",
                               "command eval ${{ v }}",
                               "X=1 eval ${{ v }}",
                               "true && builtin eval \"${{ v }}\"",
                               "f() { eval ${{ v }}; }",
                               "! eval ${{ v }}",
                               "sh -c \"echo ${{ v }}\"",
                               "sudo -u x bash -ec ${{ v }}",
                               "python3 -c \"print('${{ v }}')\"",
                               "find . -exec sh -c \"${{ v }}\" \\;",
                               "ssh host ls ${{ v }}",
                               "read ${{ v }}",
                               "unset ${{ v }}",
                               "let ${{ v }}",
                               "alias x=${{ v }}",
                               "export ${{ v }}",
                               "${{ v }} x",
                               "x${{ v }}",
                               "echo $(( ${{ w }} + 1 ))",
                               "echo $(( $(echo ${{ w }}) ))",
                               "echo ${x:-${{ v }}}",
                               "echo `echo ${{ v }}`",
                               "echo \"`echo ${{ v }}`\"",
                               "case x in x) eval ${{ v }} ;; esac",
                               "PS4=${{ v }}",
                               "export PS4=${{ v }}",
                               "for x do eval ${{ v }}; done",
                               "time -p eval ${{ v }}",
                               "e\"va\"l ${{ v }}",
                               "x=$(eval ${{ v }})",
                               "(eval ${{ v }})",
                               "cat <<EOF\n$(eval ${{ v }})\nEOF\n",
                               "test -v ${{ v }}",
                               "echo x >& ${{ v }}",
                               "cat <&${{ v }}",
                               "OPTIND=${{ v }}",
                               "for RANDOM in ${{ v }}; do :; done",
                               "printf -v ${{ v }} x",
                               "sh -c -- ${{ v }}",
                               "bash -ec -- \"x ${{ v }}\" y",
                               "sh <<EOF\necho ${{ v }}\nEOF\n",
                               "<<EOF sh\necho ${{ v }}\nEOF\n",
                               "cat <<-EOF | bash -s\n\techo ${{ v }}\n\tEOF\n",
                               "if true; then ssh host <<EOF\n${{ v }}\nEOF\nfi",
                               "python3 - <<A; cat <<B\n${{ v }}\nA\nx\nB\n"}) {
      EXPECT_NE(Refusal(shell, script), "") << script;
    }
    const auto fed = [&](std::string_view command) {
      return Refusal(shell, std::string(command) + " <<EOF\n${{ v }}\nEOF\n") != "";
    };
    for (const char* command :
         {"sudo tee /etc/x", "sudo -u root tee /etc/x", "sudo -n -u root -- tee -a x", "env cat",
          "sudo -Eu root tee x", "sudo -nu root -- tee x", "sudo -Eu$USER tee x",
          "sudo --us root tee x", "sudo --user=$USER tee x", "env -iu HOME cat",
          "docker exec -iu root web cat", "env -i A=b cat", "env A=b sudo -E tee x",
          "sudo -u \"$USER\" A=\"$B\" tee x", "docker exec -i web tee /x",
          "docker exec -u root --env A=b -i web cat", "kubectl exec -i pod -c app -- tee /x",
          "env"})
      EXPECT_FALSE(fed(command)) << command;
    for (const char* command : {"sudo bash",
                                "sudo -u root sh",
                                "sudo -s",
                                "sudo -u root -i",
                                "sudo -Es",
                                "sudo --login",
                                "sudo",
                                "env A=b python3",
                                "env -S 'sh -x'",
                                "env --split-string=sh",
                                "sudo env bash",
                                "sudo ssh host",
                                "sudo $SHELL",
                                "sudo -Eu root $SHELL",
                                "sudo -Eu root ${{ v }}",
                                "sudo -nu root ${{ v }}",
                                "sudo -uroot $SHELL",
                                "sudo -Eu root -- $SHELL",
                                "sudo --us root $SHELL",
                                "sudo --command-timeout 5 $SHELL",
                                "sudo -$FLAGS tee x",
                                "sudo -E$FLAGS tee x",
                                "sudo --$FLAG tee x",
                                "doas -nu root $SHELL",
                                "env -iu HOME $SHELL",
                                "env -iu HOME ${{ v }}",
                                "docker exec -iu root web $SHELL",
                                "env A=b \"$SHELL\"",
                                "docker exec -i web sh",
                                "docker run -i image",
                                "docker run -i image tee x",
                                "docker build -",
                                "docker exec -i web",
                                "docker exec -i web $SHELL",
                                "kubectl apply -f -",
                                "kubectl exec -i pod -- bash",
                                "podman run -i image"})
      EXPECT_TRUE(fed(command)) << command;
    EXPECT_EQ(Refusal(shell, "sh x.sh; cat <<EOF\n${{ v }}\nEOF\n"), "")
        << "what comes before has no here-document of its own";
  }
  for (const char* script :
       {"[[ ${{ v }} -eq 1 ]]", "[[ -v ${{ v }} ]]", "(( ${{ w }} > 1 ))", "a[${{ w }}]=1",
        "a=([${{ w }}]=1)", "declare -i a; a=(${{ w }})", "compgen -W ${{ v }}",
        "declare -i n; n=${{ w }}", "declare -a a=${{ v }}", "declare ${{ v }}=1",
        "for ((i = 0; i < ${{ w }}; i++)); do :; done", "function f { eval ${{ v }}; }",
        "sh <<< ${{ v }}", "<<< \"x ${{ v }}\" bash -s", "source /dev/stdin <<< ${{ v }}"}) {
    EXPECT_NE(Refusal(Shell::kBash, script), "") << script;
  }
}

TEST(ShellTemplate, ListsAreToldToGoIntoEnv) {
  const auto made = ShellTemplate::Parse("echo ${{ [\"a\"] }}", Shell::kSh, Declared(), nullptr);
  ASSERT_FALSE(made);
  for (const char* part : {"list.join(\" \")", "one word", "$LIST without quotes"})
    EXPECT_NE(made.error().message.find(part), std::string::npos) << made.error().message;
}

TEST(ShellTemplate, RefusesWhereItCannotFollow) {
  const std::string lost =
      "stands where the quoting of the script before it cannot be followed for sure;";
  EXPECT_EQ(Refusal(Shell::kSh, "echo $'it\\'s'; echo ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "echo \"${x:-'}'}\"; echo ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "echo 'open; echo \"${{ v }}\""),
            "stands inside single quotes, where the shell expands nothing;");
  EXPECT_EQ(Refusal(Shell::kBash, "echo \"open; echo ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "echo $[1 + 1] ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "shopt -s extglob; ls @(a|b); echo ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "cat <<A \"x\ny\"\nb\nA\necho ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "echo ); echo ${{ v }}"), lost);
  EXPECT_EQ(Refusal(Shell::kBash, "echo $((a) b); echo ${{ v }}"), lost);
  // What comes before is not affected.
  EXPECT_EQ(Refusal(Shell::kBash, "echo ${{ v }}; echo $[1 + 1]"), "");
}

TEST(ShellTemplate, FollowsNestingToADepth) {
  const auto nested = [](std::size_t depth, const std::string& inner) {
    std::string script = "echo ";
    for (std::size_t i = 0; i < depth; ++i) script += "$(echo ";
    return script + inner + std::string(depth, ')') + " end";
  };
  EXPECT_EQ(Refusal(Shell::kSh, nested(50, "${{ v }}")), "");
  const std::string lost =
      "stands where the quoting of the script before it cannot be followed for sure;";
  EXPECT_EQ(Refusal(Shell::kSh, nested(51, "x ${{ v }}") + " ${{ v }}"), lost + " / " + lost);
  // Without expressions there is nothing to follow, and nothing gets lost.
  const auto plain = ShellTemplate::Parse(nested(60, "x"), Shell::kSh, Declared(), nullptr);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->script(), nested(60, "x"));
}

TEST(ShellTemplate, CountOfExpressionsIsBounded) {
  std::string script;
  for (std::size_t i = 0; i < kMaxTemplateExpressions; ++i) script += ": ${{ v }}\n";
  EXPECT_TRUE(ShellTemplate::Parse(script, Shell::kSh, Declared(), nullptr));
  const auto over = ShellTemplate::Parse(script + ": ${{ v }}", Shell::kSh, Declared(), nullptr);
  EXPECT_EQ(over.error().message, "more than 1000 expressions in one script");
}

TEST(ShellTemplate, OtherShellsTakeNoExpressions) {
  EXPECT_EQ(Refusal(Shell::kOther, "print('${{ v }}')"),
            "stands in a script that is not for sh or bash;");
  const auto made = ShellTemplate::Parse("print('$${{ v }}')", Shell::kOther, Declared(), nullptr);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->script(), "print('${{ v }}')");
}

TEST(ShellTemplate, BindsEachTextOnceAndLeavesCommentsAlone) {
  const auto made =
      ShellTemplate::Parse("# ${{ no such }}\necho ${{ v }} \"${{ v }}\" ${{ w + 1 }} $${{ '}'",
                           Shell::kSh, Declared(), nullptr);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->script(),
            "# ${{ no such }}\necho \"${HEADWORKS_V1}\" \"${HEADWORKS_V1}\" \"${HEADWORKS_V2}\" "
            "${{ '}'");
  const auto bound = made->Bind({{"v", "x"}, {"w", 7}}, {});
  ASSERT_TRUE(bound);
  EXPECT_EQ(*bound, (std::vector<std::pair<std::string, std::string>>{{"HEADWORKS_V1", "x"},
                                                                      {"HEADWORKS_V2", "8"}}));
  ASSERT_EQ(made->references().size(), 2);
  EXPECT_EQ(made->references()[0].offset, 26);
}

TEST(ShellTemplate, FaultsOfExpressionsCountFromTheScript) {
  std::vector<Fault> faults;
  EXPECT_FALSE(ShellTemplate::Parse("echo ${{ q }} 'x' ${{ [v] }} ${{ 1 +", Shell::kSh, Declared(),
                                    &faults));
  ASSERT_EQ(faults.size(), 3);
  EXPECT_EQ(faults[0].offset, 9);
  EXPECT_EQ(faults[1].offset, 22);
  EXPECT_EQ(faults[2].offset, 29);
}

TEST(ShellTemplate, RefusesValuesThatNoVariableHolds) {
  const auto made = ShellTemplate::Parse("echo ${{ v }} ${{ w }}", Shell::kSh, Declared(), nullptr);
  ASSERT_TRUE(made);
  const auto bind = [&](const boost::json::value& v, const boost::json::value& w) {
    const auto bound = made->Bind({{"v", v}, {"w", w}}, {});
    return bound ? "bound" : bound.error().message;
  };
  EXPECT_EQ(bind(boost::json::string("a\0b", 3), 1),
            "'v' has a NUL character, which no shell can hold");
  EXPECT_EQ(bind("a", nullptr).substr(0, 12), "'w' is null,");
  EXPECT_EQ(bind("a", boost::json::array{1}).substr(0, 14), "'w' is a list,");
  // "HEADWORKS_V1=", the value and its end are 128 KiB at most.
  const std::size_t most = (std::size_t{128} << 10) - 14;
  EXPECT_EQ(bind(boost::json::string(most, 'x'), 1), "bound");
  EXPECT_EQ(bind(boost::json::string(most + 1, 'x'), 1).substr(0, 23), "'v' has 131059 bytes, a");
  EXPECT_EQ(Output(Shell::kSh, "printf '<%s>' ${{ v }}", std::string(most, 'x')),
            "<" + std::string(most, 'x') + ">");
}

// Commands that are hard to follow, each complete, so that what stands behind is not affected.
constexpr std::string_view kHard[] = {
    "echo \"a'b\"",
    "echo 'a\"b'",
    ": ${x:-'q}'}",
    ": \"${x:-\"a b\"}\"",
    ": \"${x:-a\\}b}\"",
    "cat <<A\n'\"` $x \\$(\nA\n",
    "cat <<-'A' ; echo \"\n\"\n\t`\n\tA\n",
    "cat <<\\A <<\"B\"\n'\nA\n\"\nB\n",
    ": $(cat <<A\n)' \nA\n)",
    "x=$(echo \")\" ')' \\))",
    ": $((1 + (2) * 3)) $# $$ $? ${#x} ${x#y}",
    "case x in x) : ;; (y|z) : ' ;; esac ' ;; *) esac",
    ": $(case x in x) echo case ;; y) ;; esac)",
    "case esac in esac) : ;; 'esac') ;; esac",
    "# it's \"a `comment",
    ": a#b 'c' #d'",
    ": \\' \\\" \\\\ \\# \\( \\`",
    ": \"\\\"\" \"\\\\\" '\\'",
    ": `echo \"'\" '\"' \\`echo x\\``",
    "f() { : \"$@\"; }",
    "f () ( : )",
    ": \"$(echo \"a$(echo 'b\"')\" \"`echo 'c'`\")\"",
    "if :; then :; elif :; then :; else :; fi",
    "for case in in do done; do :; done",
    "while false; do :; done",
    ": {a,'b}'} ~ * ?",
    "! : && : || : | cat & wait",
    ": > /dev/null 2>&1 < /dev/null 3>&-",
    "echo case x in | cat >/dev/null",
    "{ echo 'a'; } # '",
    ": 'a\nb' \"c\nd\" e\\\nf",
    "( ( : ) )",
    "x='a' y=\"b\" : z=c",
};
constexpr std::string_view kHardInBash[] = {
    "[[ x =~ (a|'b c')* && ! ( -n \"y'\" ) ]] || :",
    "a=(1 \"2'\" '3\"' $(echo 4) \\)\n  5 # '\n)",
    "((1 < 2)) && ((x = (1 + 2) << 1))",
    ": <(echo ')') $'a\\'b\"' $\"c'\"",
    ": <<< \"a'\" &>> /dev/null",
    "for ((i = 0; i < (1); i++)); do :; done",
    "function g { : ')'; }",
    "case a in a) : ;& b) : ;;& c) ;; esac",
    "select x in a b; do break; done < /dev/null",
};

/// A script of some hard commands and then `sink`, perhaps inside of something.
std::string HardScript(Shell shell, std::string_view sink, SeededRandom& random) {
  std::string script;
  for (std::uint64_t commands = 1 + random.Next() % 4; commands > 0; --commands) {
    const bool bash = shell == Shell::kBash && random.Next() % 3 == 0;
    const std::string_view command = bash ? kHardInBash[random.Next() % std::size(kHardInBash)]
                                          : kHard[random.Next() % std::size(kHard)];
    script += std::string(command) + "\n";
  }
  script += "printf '\\n'; ";
  const std::uint64_t around = random.Next() % 6;
  script += around == 0   ? "(" + std::string(sink) + ")"
            : around == 1 ? "{ " + std::string(sink) + "; }"
            : around == 2 ? "case 1 in (1) " + std::string(sink) + ";; esac"
            : around == 3 ? "if :; then " + std::string(sink) + "; fi"
            : around == 4 ? "printf '%s' \"$(" + std::string(sink) + ")\""
                          : std::string(sink);
  return script;
}

/// `rounds` random scripts run with a hostile value, which must be printed last, whole.
void RunHardScripts(std::uint64_t seed, int rounds) {
  SeededRandom random(seed);
  const std::string value = "a'b\"c  $(echo INJECTED) `x` \\ * ; echo INJECTED #";
  int accepted = 0;
  for (int i = 0; i < rounds; ++i) {
    const Shell shell = random.Next() % 2 == 0 ? Shell::kSh : Shell::kBash;
    const std::string script = HardScript(
        shell, random.Next() % 2 == 0 ? "printf '<%s>' ${{ v }}" : "printf '<%s>' \"${{ v }}\"",
        random);
    if (!Refusal(shell, script).empty()) continue;
    ++accepted;
    const std::string output = Output(shell, script, value);
    ASSERT_TRUE(output.ends_with("\n<" + value + ">")) << Program(shell) << ":\n"
                                                       << script << "\ngives:\n"
                                                       << output;
  }
  // Refusing all would pass too.
  EXPECT_GT(accepted, rounds * 3 / 4);
}

TEST(ShellTemplate, HardScriptsAreFollowedAsTheShellsDo) { RunHardScripts(20261129, 150); }

TEST(ShellTemplate, RandomValuesComeBackByteForByte) {
  SeededRandom random(20261129);
  constexpr std::string_view kLetters = "'\"\\$`(){}[]<>|&;#~*?!= \t\n-aE${%";
  const std::string& place = Places()[0];
  for (int i = 0; i < 100; ++i) {
    std::string value;
    const std::size_t length = random.Next() % 40;
    for (std::size_t k = 0; k < length; ++k) value += kLetters[random.Next() % kLetters.size()];
    const std::string& where = Places()[random.Next() % Places().size()];
    const Shell shell = random.Next() % 2 == 0 ? Shell::kSh : Shell::kBash;
    ASSERT_EQ(Output(shell, where, value), "<" + value + ">") << where;
    ASSERT_EQ(Output(shell, place, value), "<" + value + ">");
  }
}

}  // namespace
}  // namespace headworks::expr
