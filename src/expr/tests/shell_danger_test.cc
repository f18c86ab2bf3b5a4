#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/expr/shell_template.h"
#include "shells.h"

namespace headworks::expr {
namespace {

// One or more for each way that a value could become code: places where it must be refused.
constexpr std::string_view kCode[] = {
    // The name of a program, whatever stands before it.
    "/bin/${{ v }} -c x",
    "./tools/${{ v }}.sh",
    "$(which ${{ v }}) x",
    "timeout 5 ${{ v }}",
    "timeout -k ${{ v }} 5 ${{ v }}",
    "nice ${{ v }}",
    "nice -n 5 ${{ v }} x",
    "nohup ${{ v }} &",
    "setsid ${{ v }}",
    "stdbuf -oL ${{ v }}",
    "chroot / ${{ v }}",
    "flock /tmp/l ${{ v }}",
    "flock ${{ v }} make ${{ w }}",
    "flock /tmp/l -c ${{ v }}",
    "env ${{ v }}",
    "env A=b ${{ v }}",
    "env -u A -- ${{ v }}",
    "sudo -u root ${{ v }}",
    "exec ${{ v }}",
    "command ${{ v }}",
    "builtin ${{ v }}",
    "time ${{ v }}",
    "ionice -c 3 ${{ v }}",
    "setpriv --ruid 1 ${{ v }}",
    "sudo timeout 5 nice ${{ v }}",
    "xargs ${{ v }} < list",
    "xargs -n 1 ${{ v }} < list",
    "ls | xargs -I ${{ v }} sh -c 'rm {}'",
    "find . -exec ${{ v }} {} \\;",
    "find . -name x -execdir ${{ v }} +",
    "find ${{ v }} ${{ w }} -exec rm {} \\;",
    "docker exec web ${{ v }}",
    "kubectl exec pod -c app -- ${{ v }}",
    "{ ${{ v }}; }",
    "(${{ v }})",
    "x=$(timeout 5 ${{ v }})",
    "f() { nice ${{ v }}; }",
    "case x in x) nice ${{ v }} ;; esac",
    "true | nice ${{ v }}",
    "if nice ${{ v }}; then :; fi",
    // What an interpreter reads.
    "sh ${{ v }} ${{ w }}",
    "sh -- ${{ v }}",
    "bash -x ${{ v }}",
    "bash -euo pipefail -c ${{ v }}",
    "bash --rcfile ${{ v }} -i",
    "sh -s ${{ v }}",
    "sh -c \"$(cat ${{ v }})\"",
    ". ${{ v }}",
    ". \"./${{ v }}.sh\"",
    "python3.11 -c ${{ v }}",
    "python3 -W ignore ${{ v }}",
    "python3 -m ${{ v }}",
    "perl -e 1 ${{ v }}",
    "ruby -r${{ v }} x.rb",
    "node --require ${{ v }} x.js",
    "node --title x ${{ v }}",
    "node -pe \"1+${{ v }}\"",
    "node -pe ${{ v }}",
    "tcsh -c \"echo ${{ v }}\"",
    "csh <<EOF\n${{ v }}\nEOF",
    "rbash ${{ v }}",
    "yash -c ${{ v }}",
    "vim -c \"s/a/${{ v }}/\" f",
    "emacs --batch --eval \"(f ${{ v }})\"",
    "echo ${{ v }} | m4",
    "sed ${{ v }} file",
    "sed -e ${{ v }} file",
    "sed s/a/${{ v }}/ file",
    "sed s/a/b/ ${{ v }}",
    "awk \"{ print ${{ v }} }\" file",
    "gawk -f ${{ v }} file",
    "awk -f x.awk ${{ v }}",
    "jq \".${{ v }}\" file",
    "jq . ${{ v }}",
    "make ${{ v }}",
    "make X=${{ v }}",
    "ssh ${{ v }} ls",
    "ssh -o ${{ v }} host",
    "ssh host ls ${{ v }}",
    "sqlite3 db \"insert into t values ('${{ v }}')\"",
    "psql -c \"select '${{ v }}'\"",
    "psql --command=\"select '${{ v }}'\" db",
    "mysql -e ${{ v }} db",
    "docker exec web sh -c ${{ v }}",
    "docker run image sh -c ${{ v }}",
    "docker compose -f a.yaml exec -T web psql -c ${{ v }}",
    "parallel ${{ v }} ::: a b",
    "watch ${{ v }}",
    "su -c ${{ v }} user",
    "env -S ${{ v }}",
    "env --split-string=${{ v }}",
    "git -c alias.x=${{ v }} x",
    "git ${{ v }}",
    "git clone ${{ v }} x",
    "git clone --upload-pack=${{ v }} x",
    "git -C x fetch origin ${{ v }}",
    "git ls-remote ${{ v }}",
    "git grep ${{ v }}",
    "git rebase -x ${{ v }} main",
    "git filter-branch --tree-filter ${{ v }} HEAD",
    "git config ${{ v }} ${{ w }}",
    "git config alias.x ${{ v }}",
    "git config --global core.pager ${{ v }}",
    "tar -cf x.tar ${{ v }}",
    "tar cf x.tar ${{ v }}",
    "tar --to-command=${{ v }} -xf x.tar",
    "tar -xf x.tar -I ${{ v }}",
    "scp ${{ v }} host:",
    "scp -o ${{ v }} x host:",
    "zip x.zip ${{ v }}",
    "zip -TT ${{ v }} x.zip y",
    "wget ${{ v }}",
    "wget --use-askpass=${{ v }} http://x",
    "split ${{ v }} part-",
    "split --filter=${{ v }} x",
    "npx ${{ v }}",
    "npm run ${{ v }}",
    "npm exec -- ${{ v }}",
    "uv run ${{ v }} x",
    "uv run --with x python -c ${{ v }}",
    "poetry run sh -c ${{ v }}",
    "xterm -e ${{ v }}",
    "screen -dm ${{ v }}",
    "tmux new-session -d ${{ v }}",
    "ls | entr ${{ v }}",
    "mine --with sh -c ${{ v }}",
    // What is redirected or piped into one.
    "{ sh; } <<EOF\n${{ v }}\nEOF\n",
    "( sh ) <<EOF\n${{ v }}\nEOF\n",
    "while true; do sh; break; done <<EOF\n${{ v }}\nEOF\n",
    "if true; then sh; fi <<EOF\n${{ v }}\nEOF\n",
    "case x in x) sh ;; esac <<EOF\n${{ v }}\nEOF\n",
    "cat <<EOF |\n${{ v }}\nEOF\nsh",
    "echo ${{ v }} | sh",
    "echo a; echo ${{ v }} | tr a b | sh",
    "printf %s ${{ v }} | bash -s",
    "echo ${{ v }} | sudo sh",
    "echo ${{ v }} | { cat; sh; }",
    "echo ${{ v }} | (sh)",
    "{ echo ${{ v }}; } | sh",
    "(echo ${{ v }}; echo x) | sh",
    "if :; then echo ${{ v }}; fi | sh",
    "for i in 1; do echo ${{ v }}; done | sh",
    "echo ${{ v }} |\n\nsh",
    "echo \"$(echo ${{ v }})\" | sh",
    "echo ${{ v }} | python3 -",
    "echo ${{ v }} | psql db",
    "echo ${{ v }} | sqlite3 db",
    "echo ${{ v }} | xargs sh -c",
    "echo ${{ v }} | xargs -I{} sh -c 'echo {}' sh",
    "echo ${{ v }} | xargs env",
    "echo ${{ v }} | bc",
    "sh < ${{ v }}",
    "sed -f - x <<EOF\n${{ v }}\nEOF\n",
    // What builtins evaluate.
    "printf ${{ v }}",
    "printf -- ${{ v }} x",
    "[ ${{ v }} ${{ w }} ]",
    "[ \"${{ v }}\" \"${{ w }}\" ]",
    "test ${{ v }} ${{ w }}",
    "[ ! ${{ v }} ${{ w }} ]",
    "[ ${{ v }} \"$X\" ]",
    "[ -v ${{ v }} ]",
    "enable -f ${{ v }} x",
    "hash -p ${{ v }} ls",
    "alias x=sh; echo ${{ v }}",
    // What the shell, the loader and interpreters read from variables.
    "PATH=${{ v }} ls",
    "PATH=\"${{ v }}:$PATH\"",
    "export PATH=${{ v }}",
    "env PATH=${{ v }} ls",
    "LD_PRELOAD=${{ v }} ls",
    "BASH_ENV=${{ v }} bash x.sh",
    "ENV=${{ v }}",
    "IFS=${{ v }}",
    "PYTHONPATH=${{ v }} python3 x.py",
    "for PATH in ${{ v }}; do :; done",
};
constexpr std::string_view kCodeInBash[] = {
    "echo |& sh <<< ${{ v }}",
    "echo ${{ v }} |& sh",
    "python3 <<< ${{ v }}",
    "sh < <(echo ${{ v }})",
    "bash <(echo ${{ v }})",
    "source <(echo ${{ v }})",
    "printf -v ${{ v }} x",
    "printf -v PATH %s ${{ v }}",
    "read PATH <<< ${{ v }}",
    "declare -i n; read n <<< ${{ v }}",
    "declare -i n; for n in ${{ v }}; do :; done",
    "declare -n n; n=${{ v }}",
    "exec {a[${{ v }}]}> file",
    "echo ${a[${{ v }}]}",
    "echo $[ ${{ v }} ]",
    "[[ 1 -lt ${{ v }} ]]",
    "coproc ${{ v }}",
    "psql -f- <<< ${{ v }}",
};

/// Where a value is data: places that must not be refused.
constexpr std::string_view kData[] = {
    "cp -- \"${{ v }}\" to",
    "timeout ${{ v }} ./job ${{ w }}",
    "timeout -- ${{ v }} ./job",
    "nice -n ${{ v }} ./job ${{ w }}",
    "flock -- ${{ v }} ./job ${{ w }}",
    "flock \"/tmp/${{ v }}\" ./job ${{ w }}",
    "env A=${{ v }} ./job ${{ w }}",
    "sudo -u ${{ v }} ./job ${{ w }}",
    "command -v ${{ v }}",
    "exec ./job ${{ v }}",
    "xargs -n ${{ v }} ./job < list",
    "find ${{ v }} -name ${{ w }} -exec rm {} \\;",
    "find . -name ${{ v }} -exec grep ${{ w }} {} +",
    "echo ${{ v }} | xargs rm",
    "echo ${{ v }} | xargs sh -c 'rm \"$@\"' sh",
    "sh x.sh ${{ v }} ${{ w }}",
    "bash -x \"$DIR/x.sh\" ${{ v }}",
    "bash -euo pipefail -c 'echo \"$1\"' sh ${{ v }}",
    "sh -s -- ${{ v }} < x.sh",
    ". ./x.sh ${{ v }}",
    "python3 -u train.py --rate ${{ v }}",
    "python3 -m train ${{ v }}",
    "python3 -c 'import sys' ${{ v }}",
    "echo ${{ v }} | python3 -c 'import sys'",
    "python3 - ${{ v }} < x.py",
    "perl -e 1 -- ${{ v }}",
    "node app.js ${{ v }}",
    "vim -c wq -- ${{ v }}",
    "sed s/a/b/ -- ${{ v }}",
    "sed s/a/b/ \"./${{ v }}\"",
    "awk -v x=${{ v }} '{ print x }' file",
    "awk '{ print }' ${{ v }}",
    "jq --arg x ${{ v }} '.[$x]' file",
    "echo ${{ v }} | jq .x",
    "echo ${{ v }} | sed s/a/b/",
    "echo ${{ v }} | awk '{ print }' | sort",
    "make -C ${{ v }} -j ${{ w }} all",
    "ssh -p ${{ v }} \"user@${{ w }}\" uptime",
    "psql -v day=${{ v }} -d ${{ w }} -f x.sql",
    "docker exec -e A=${{ v }} web tool ${{ w }}",
    "docker build -t ${{ v }} .",
    "echo ${{ v }} | docker login --password-stdin",
    "git -C ${{ v }} checkout ${{ w }}",
    "tar xzf ${{ v }}",
    "tar -xf x.tar --exclude=${{ v }} ./${{ w }}",
    "zip -r x.zip \"./${{ v }}\"",
    "split -l ${{ v }} x",
    "echo ${{ v }} && sh x.sh | cat",
    "echo ${{ v }}; sh < x.sh",
    "{ echo ${{ v }}; }; sh < x.sh",
    "x=$(echo ${{ v }}); tar c . | ssh host tar x",
    "{ cat; } <<EOF\n${{ v }}\nEOF\n",
    "while read x; do echo $x; done <<EOF\n${{ v }}\nEOF\n",
    "sh x.sh <<EOF\n${{ v }}\nEOF\n",
    "[ ${{ v }} ]",
    "[ -n ${{ v }} ]",
    "[ ${{ v }} = ${{ w }} ] || [ ${{ v }} -gt 3 ]",
    "[ -f ${{ v }} -a ${{ w }} = x ]",
    "printf '%s\\n' ${{ v }} ${{ w }}",
    "PATHS=${{ v }}",
    "case ${{ v }} in a|b) ./x ;; esac",
    "for f in ${{ v }} ${{ w }}; do ./x \"$f\"; done",
};
// The same, of programs that would change what this test needs, or ask the network.
constexpr std::string_view kDataOfOthers[] = {
    "git clone --depth ${{ v }} -b ${{ w }} -- ${{ v }} x",
    "git fetch origin \"refs/heads/${{ v }}\"",
    "git commit -m ${{ v }}",
    "git push origin ${{ v }}",
    "git config user.name ${{ v }}",
    "tar -czf ${{ v }} -C ${{ w }} -- x",
    "tar cfz ${{ v }} x",
    "scp -P ${{ v }} -- ${{ w }} host:",
    "wget -O ${{ v }} -- ${{ w }}",
    "npm install ${{ v }}",
    "npm run build -- ${{ v }}",
    "uv run x.py ${{ v }}",
    "uv pip install ${{ v }}",
    "npx tool ${{ v }}",
};

TEST(ShellDanger, ReasonsSayTheWayOut) {
  for (const auto& [script, reason] :
       {std::pair{"nice ${{ v }}",
                  "names the program to run; write its name into the script (case "
                  "... esac chooses between several), or"},
        std::pair{"python3.11 -c ${{ v }}",
                  "is read by python3.11 as its program or the name of one; pass it as an argument "
                  "(sh -c '... \"$1\"' sh VALUE, awk -v x=VALUE), or"},
        std::pair{"eval ${{ v }}", "is read by eval as code;"},
        std::pair{"printf ${{ v }}", "is the format of printf; write printf '%s' VALUE, or"},
        std::pair{"ruby -r ${{ v }} x.rb",
                  "is read by ruby as an option that is code or names it;"},
        std::pair{"sed s/a/b/ ${{ v }}", "could be an option of sed; write -- or ./ before it, or"},
        std::pair{"echo ${{ v }} | sh",
                  "is fed to a command that reads its input as a program; "
                  "pass it as an argument, or"},
        std::pair{"[ ${{ v }} ${{ w }} ]",
                  "could be the -v of test, which evaluates an index in the next word; compare it "
                  "(= or !=), or"},
        std::pair{"PATH=${{ v }}", "is assigned to PATH, which is code or names it;"}})
    EXPECT_EQ(Refusal(Shell::kBash, script), reason);
}

TEST(ShellDanger, NoValueNamesOrBecomesAProgram) {
  for (const Shell shell : {Shell::kSh, Shell::kBash}) {
    for (const std::string_view script : kCode) EXPECT_NE(Refusal(shell, script), "") << script;
    for (const std::string_view script : kData) EXPECT_EQ(Refusal(shell, script), "") << script;
    for (const std::string_view script : kDataOfOthers)
      EXPECT_EQ(Refusal(shell, script), "") << script;
  }
  for (const std::string_view script : kCodeInBash)
    EXPECT_NE(Refusal(Shell::kBash, script), "") << script;
}

/// A folder with a program `mark` that leaves a trace when anything runs it.
class MarkedFolder {
 public:
  MarkedFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "headworks_mark_XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
    std::filesystem::create_directory(path_ / "evil");
    for (const char* program : {"mark", "evil/ls"}) {
      std::ofstream(path_ / program) << "#!/bin/sh\n: > " << (path_ / "trace").string() << "\n";
      std::filesystem::permissions(path_ / program, std::filesystem::perms::owner_all);
    }
    // What would reach for other machines gets nowhere.
    for (const char* program : {"job", "x.sh", "tool", "ssh", "docker", "psql", "sudo"}) {
      std::ofstream(path_ / program) << "#!/bin/sh\n:\n";
      std::filesystem::permissions(path_ / program, std::filesystem::perms::owner_all);
    }
    for (const char* file : {"file", "list"}) std::ofstream(path_ / file) << "a\n";
  }
  MarkedFolder(const MarkedFolder&) = delete;
  MarkedFolder& operator=(const MarkedFolder&) = delete;
  ~MarkedFolder() { std::filesystem::remove_all(path_); }

  std::string path() const { return path_.string(); }
  /// Whether the script, which sees the values as HEADWORKS_V1 and V2, runs `mark`.
  bool Marks(Shell shell, const std::string& script, const std::string& v,
             const std::string& w) const {
    static_cast<void>(Run(shell, script, {{"HEADWORKS_V1", v}, {"HEADWORKS_V2", w}}, path()));
    return std::filesystem::remove(path_ / "trace");
  }

 private:
  std::filesystem::path path_;
};

struct Exploit {
  std::string_view script, v, w;
};
// What an unchecked binding would let run.
constexpr Exploit kExploits[] = {
    {"/bin/${{ v }} -c mark", "sh", ""},
    {"timeout 5 ${{ v }}", "mark", ""},
    {"nice ${{ v }}", "mark", ""},
    {"env ${{ v }}", "mark", ""},
    {"env -S ${{ v }}", "mark", ""},
    {"echo x | xargs ${{ v }}", "mark", ""},
    {"flock /dev/null ${{ v }}", "mark", ""},
    {"flock ${{ v }} /dev/null ${{ w }}", "-n", "mark"},
    {"find . -maxdepth 0 -exec ${{ v }} \\;", "mark", ""},
    {"find ${{ v }} ${{ w }} -maxdepth 0 -exec true \\;", "-exec", "mark"},
    {"f() { setsid -w ${{ v }}; }; f", "mark", ""},
    {"case x in x) stdbuf -oL ${{ v }} ;; esac", "mark", ""},
    {"x=$(nohup ${{ v }})", "mark", ""},
    {"sh ${{ v }} ${{ w }}", "-c", "mark"},
    {"sh ${{ v }}", "./mark", ""},
    {"sh -c ${{ v }}", "mark", ""},
    {". ${{ v }}", "./mark", ""},
    {"eval ${{ v }}", "mark", ""},
    {"trap ${{ v }} EXIT", "mark", ""},
    {"awk ${{ v }}", "BEGIN { system(\"mark\") }", ""},
    {"sed ${{ v }} file", "1e mark", ""},
    {"sed s/a/b/ ${{ v }} file", "-e1e mark", ""},
    {"sed \"s/a/${{ v }}/\" file", "mark/e;#", ""},
    {"perl -e '1;' ${{ v }}", "-esystem q(mark)", ""},
    {"perl -e \"print '${{ v }}'\"", "'.`mark`.'", ""},
    {"python3 -c ${{ v }}", "import os; os.system('mark')", ""},
    {"git -c alias.x=${{ v }} x", "!mark", ""},
    {"git ls-remote ${{ v }} ${{ w }}", "--upload-pack=mark", "."},
    {"tar -cf x.tar ${{ v }} file", "-Imark", ""},
    {"tar cf x.tar ${{ v }} ${{ w }} file", "--checkpoint=1", "--checkpoint-action=exec=mark"},
    {"{ sh; } <<EOF\n${{ v }}\nEOF\n", "mark", ""},
    {"( sh ) <<EOF\n${{ v }}\nEOF\n", "mark", ""},
    {"while :; do sh; break; done <<EOF\n${{ v }}\nEOF\n", "mark", ""},
    {"cat <<EOF |\n${{ v }}\nEOF\nsh", "mark", ""},
    {"echo ${{ v }} | sh", "mark", ""},
    {"{ echo ${{ v }}; } | (sh)", "mark", ""},
    {"echo ${{ v }} | { cat >&2; }; echo ${{ v }} | { cat | sh; }", "mark", ""},
    {"echo ${{ v }} | xargs -I{} sh -c '{}'", "mark", ""},
    {"echo ${{ v }} | xargs env", "mark", ""},
    {"sh < ${{ v }}", "mark", ""},
    {"env - ${{ v }}", "./mark", ""},
    {"sh -c \"$(cat <<EOF\n${{ v }}\nEOF\n)\"", "mark", ""},
    {". /dev/stdin <<EOF\n${{ v }}\nEOF\n", "./mark", ""},
    {"sh /dev/fd/3 3<<EOF\n${{ v }}\nEOF\n", "mark", ""},
    {"PATH=${{ v }}:$PATH; ls", "evil", ""},
    {"PATH=${{ v }}:$PATH ls", "evil", ""},
    {"BASH_ENV=${{ v }} bash -c :", "./mark", ""},
    {"x='a mark'; IFS=${{ v }}; for y in $x; do $y; done", " ", ""},
};
constexpr Exploit kExploitsInBash[] = {
    {"sh <<< ${{ v }}", "mark", ""},
    {"sh < <(echo ${{ v }})", "mark", ""},
    {"bash <(echo ${{ v }})", "mark", ""},
    {"source <(echo ${{ v }})", "mark", ""},
    {"echo ${{ v }} |& sh", "mark", ""},
    {"echo ${{ v }} > >(sh); wait $!", "mark", ""},
    {"{ echo ${{ v }}; } > >(sh); wait $!", "mark", ""},
    {"xargs -a <(echo ${{ v }}) -I{} sh -c {}", "mark", ""},
    {"printf ${{ v }} ${{ w }}", "-va[$(mark)]", "x"},
    {"printf -v ${{ v }} x", "a[$(mark)]", ""},
    {"[ ${{ v }} ${{ w }} ]", "-v", "a[$(mark)]"},
    {"[ ! \"${{ v }}\" \"${{ w }}\" ]", "-v", "a[$(mark)]"},
    {"test -v ${{ v }}", "a[$(mark)]", ""},
    {"[[ -v ${{ v }} ]]", "a[$(mark)]", ""},
    {"[[ ${{ v }} -eq 1 ]]", "a[$(mark)]", ""},
    {"(( ${{ v }} ))", "a[$(mark)]", ""},
    {"echo $(( ${{ v }} ))", "a[$(mark)]", ""},
    {"echo ${x[${{ v }}]}", "a[$(mark)]", ""},
    {"x[${{ v }}]=1", "a[$(mark)]", ""},
    {"x=([${{ v }}]=1)", "a[$(mark)]", ""},
    {"let ${{ v }}", "a[$(mark)]", ""},
    {"declare ${{ v }}=1", "a[$(mark)]", ""},
    {"export ${{ v }}; ls", "PATH=evil", ""},
    {"a=(1); unset ${{ v }}", "a[$(mark)]", ""},
    {"read ${{ v }} <<< x", "a[$(mark)]", ""},
    {"declare -i n; n=${{ v }}", "a[$(mark)]", ""},
    {"declare -i n; read n <<< ${{ v }}", "a[$(mark)]", ""},
    {"declare -i n; for n in ${{ v }}; do :; done", "a[$(mark)]", ""},
    {"declare -i n; printf -v n %s ${{ v }}", "a[$(mark)]", ""},
    {"declare -n n; n=${{ v }}; echo $n", "a[$(mark)]", ""},
    {"hash -p ${{ v }} ls; ls", "./mark", ""},
    {"PS4=${{ v }}; set -x; :", "$(mark)", ""},
    {"exec {x[${{ v }}]}> /dev/null", "a[$(mark)]", ""},
};

TEST(ShellDanger, WhatItRefusesWouldRunAValue) {
  const MarkedFolder folder;
  const auto try_all = [&](Shell shell, std::span<const Exploit> exploits) {
    for (const Exploit& exploit : exploits) {
      std::string unchecked(exploit.script);
      for (const auto& [from, to] :
           {std::pair{"${{ v }}", "HEADWORKS_V1"}, std::pair{"${{ w }}", "HEADWORKS_V2"}}) {
        for (std::size_t at; (at = unchecked.find(from)) != std::string::npos;) {
          // The text before it has an open quote or not, as far as these scripts go.
          const bool quoted = std::count(unchecked.begin(),
                                         unchecked.begin() + static_cast<std::ptrdiff_t>(at), '"') %
                                  2 ==
                              1;
          const bool heredoc =
              unchecked.find("<<EOF") < at && unchecked.find("EOF\n", at) != std::string::npos;
          const std::string reference = "${" + std::string(to) + "}";
          unchecked.replace(at, 8, quoted || heredoc ? reference : '"' + reference + '"');
        }
      }
      EXPECT_TRUE(folder.Marks(shell, unchecked, std::string(exploit.v), std::string(exploit.w)))
          << Program(shell) << ": " << unchecked;
      EXPECT_NE(Refusal(shell, exploit.script), "") << Program(shell) << ": " << exploit.script;
    }
  };
  for (const Shell shell : {Shell::kSh, Shell::kBash}) try_all(shell, kExploits);
  try_all(Shell::kBash, kExploitsInBash);
}

TEST(ShellDanger, WhatItAcceptsRunsNoValue) {
  const MarkedFolder folder;
  std::vector<std::pair<std::string, std::string>> values = {
      {"-exec", "mark"}, {"-v", "a[$(mark)]"}, {"-c", "mark"}, {"-n", "mark"}, {"-S", "mark"}};
  for (const char* value :
       {"mark", "; mark #", "$(mark)", "`mark`", "a[$(mark)]", "'; mark; '", "\n mark\n", "./mark",
        "-emark", "-e1e mark", "-cmark", "--eval=$(shell mark)", "-esystem q(mark)",
        "BEGIN { system(\"mark\") }", "import os; os.system('mark')", "-oProxyCommand=mark",
        "-va[$(mark)]", "--split-string=mark"})
    values.emplace_back(value, value);
  std::size_t turn = 0;
  for (const Shell shell : {Shell::kSh, Shell::kBash}) {
    for (const std::string_view script : kData) {
      const auto made = ShellTemplate::Parse(script, shell, Declared(), nullptr);
      ASSERT_TRUE(made) << script;
      const bool first_is_v = script.find("${{ w }}") > script.find("${{ v }}");
      for (const auto& [v, w] : values) {
        if (++turn % 4 != 0) continue;  // A process for each.
        EXPECT_FALSE(folder.Marks(shell, made->script(), first_is_v ? v : w, first_is_v ? w : v))
            << Program(shell) << ": " << made->script() << "\nwith " << v << " and " << w;
      }
    }
  }
}

TEST(ShellDanger, ValuesOfTheMatrixAreTextOfTheScript) {
  Environment environment = Declared();
  ASSERT_TRUE(environment.Declare("matrix", Type::Object({{"cc", Type::Kind::kString}}, false)));
  const auto faults = [&](Shell shell, std::string_view script, const boost::json::object* matrix) {
    std::vector<Fault> found;
    static_cast<void>(ShellTemplate::Parse(script, shell, environment, &found, matrix));
    return found.size();
  };
  const auto with = [&](Shell shell, std::string_view script, std::string_view value) {
    const boost::json::object matrix = {{"cc", value}};
    return faults(shell, script, &matrix);
  };
  for (const Shell shell : {Shell::kSh, Shell::kBash}) {
    for (const char* script :
         {"${{ matrix.cc }} -c x.c -o ${{ v }}", "\"${{ matrix.cc }}\" x ${{ v }}",
          "exec ${{ matrix.cc }} x ${{ v }}", "${{ matrix.cc + \"-14\" }} ${{ v }}",
          "if true; then x-${{ matrix.cc }} ${{ v }}; fi", "x=$(${{ matrix.cc }} --version)",
          "timeout 5 ${{ matrix.cc }} ${{ v }}", "make ${{ matrix.cc }}"}) {
      EXPECT_EQ(faults(shell, script, nullptr), 0U) << script;
      EXPECT_EQ(with(shell, script, "gcc"), 0U) << script;
      const auto made = ShellTemplate::Parse(script, shell, environment, nullptr);
      ASSERT_TRUE(made);
      EXPECT_TRUE(made->depends_on_matrix()) << script;
    }
    for (const char* script :
         {"${{ matrix.cc + v }} x", "${{ matrix.cc }}${{ v }} x", "`${{ matrix.cc }} x`",
          "'${{ matrix.cc }}' x", "echo ${x'; ${{ matrix.cc }} x"}) {
      EXPECT_EQ(faults(shell, script, nullptr), 1U) << script;
      EXPECT_EQ(with(shell, script, "gcc"), 1U) << script;
    }
    EXPECT_EQ(with(shell, "eval ${{ matrix.cc }}", "true"), 0U) << "as if it stood there";
    for (const char* command : {"eval", "trap", "command", "export", "sudo", "/usr/bin/nice"}) {
      EXPECT_EQ(with(shell, "${{ matrix.cc }} ${{ v }}", command), 1U) << command;
      EXPECT_EQ(with(shell, "timeout 5 ${{ matrix.cc }} ${{ v }}", command), 1U) << command;
      EXPECT_EQ(with(shell, "${{ matrix.cc }} x", command), 0U) << command;
    }
    EXPECT_EQ(with(shell, "${{ matrix.cc }} -c ${{ v }}", "/bin/sh"), 1U);
    EXPECT_EQ(with(shell, "nice ${{ matrix.cc }} -c ${{ v }}", "sh"), 1U);
    EXPECT_EQ(with(shell, "python${{ matrix.cc }} -c ${{ v }}", "3.11"), 1U);
    EXPECT_EQ(with(shell, "${{ matrix.cc }} x -- ${{ v }}", "/bin/sh"), 0U);
    EXPECT_EQ(with(shell, "${{ matrix.cc }} <<EOF\n${{ v }}\nEOF\n", "sh"), 1U);
    EXPECT_EQ(with(shell, "echo ${{ v }} | ${{ matrix.cc }}", "sh"), 1U);
    EXPECT_EQ(with(shell, "echo ${{ v }} | ${{ matrix.cc }}", "cat"), 0U);
    // In the place of an option.
    EXPECT_EQ(with(shell, "sh ${{ matrix.cc }} ${{ v }}", "-c"), 1U);
    EXPECT_EQ(with(shell, "sh ${{ matrix.cc }} ${{ v }}", "x.sh"), 0U);
    EXPECT_EQ(with(shell, "env ${{ matrix.cc }} ${{ v }}", "-S"), 1U);
    EXPECT_EQ(with(shell, "find . ${{ matrix.cc }} ${{ v }}", "-exec"), 1U);
    EXPECT_EQ(with(shell, "find . ${{ matrix.cc }} ${{ v }}", "-name"), 0U);
    EXPECT_EQ(with(shell, "[ ${{ matrix.cc }} ${{ v }} ]", "-v"), 1U);
    EXPECT_EQ(with(shell, "[ ${{ matrix.cc }} ${{ v }} ]", "-n"), 0U);
    EXPECT_EQ(with(shell, "${{ matrix.cc }} eval ${{ v }}", "if"), 0U)
        << "in quotes it is the name of a command";
  }
  const auto plain =
      ShellTemplate::Parse("echo ${{ matrix.cc }}", Shell::kSh, environment, nullptr);
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->depends_on_matrix());
}

}  // namespace
}  // namespace headworks::expr
