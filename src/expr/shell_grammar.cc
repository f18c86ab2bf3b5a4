#include "shell_grammar.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace headworks::expr::internal {
namespace {

using Reads = ShellGrammar::Reads;
using Input = ShellGrammar::Input;

// From the manuals of GNU coreutils, util-linux, and of each program.
constexpr ShellGrammar kGrammars[] = {
    // They run the command that they are given.
    {" command builtin nohup setsid busybox toybox fakeroot coproc ", Reads::kCommand},
    {" exec ", Reads::kCommand, Input::kData, " -a "},
    {" time ", Reads::kCommand, Input::kData, " -f --format -o --output "},
    {" nice ", Reads::kCommand, Input::kData, " -n --adjustment "},
    {" ionice ", Reads::kCommand, Input::kData,
     " -c --class -n --classdata -p --pid -P --pgid -u --uid "},
    {" timeout ", Reads::kCommand, Input::kData, " -k --kill-after -s --signal ", 1},
    {" stdbuf ", Reads::kCommand, Input::kData, " -i --input -o --output -e --error "},
    {" chroot ", Reads::kCommand, Input::kProgramIfNoneGiven, " --userspec --groups ", 1},
    {" taskset chrt ", Reads::kCommand, Input::kData,
     " -T --sched-runtime -P --sched-period -D --sched-deadline ", 1},
    {" flock ", Reads::kCommand, Input::kData,
     " -w --wait --timeout -E --conflict-exit-code -c* --command* ", 1},
    {" env ", Reads::kCommand, Input::kData,
     " -u --unset -C --chdir -a --argv0 -S* --split-string* "},
    {" sudo ", Reads::kCommand, Input::kProgramIfNoneGiven,
     " -u --user -g --group -h --host -p --prompt -C --close-from -r --role -t --type -T "
     "--command-timeout -D --chdir -R --chroot -U --other-user -a --auth-type -c -s< --shell< -i< "
     "--login< "},
    {" doas ", Reads::kCommand, Input::kProgramIfNoneGiven, " -u -C -a -s< "},
    {" unshare nsenter setpriv ", Reads::kCommand, Input::kProgramIfNoneGiven,
     " -t --target -S --setuid -G --setgid -R --root -w --wd --reuid --ruid --euid --regid --rgid "
     "--egid --groups --inh-caps --ambient-caps --bounding-set --securebits --pdeathsig "
     "--selinux-label --apparmor-profile "},
    {" xargs ", Reads::kCommand, Input::kData,
     " -n --max-args -P --max-procs -L --max-lines -s --max-chars -d --delimiter -a! --arg-file! "
     "-E "
     "-I! --replace! "},
    {" strace ltrace ", Reads::kCommand, Input::kData, " -o -e -p -s -a -u -P -b -E "},
    {" npx bunx uvx ", Reads::kCommand, Input::kData,
     " -p --package --from --with -w --workspace -c* --call* "},
    {" xterm ", Reads::kCommand, Input::kData,
     " -e< -T -title -n -geometry -fn -fa -fs -bg -fg -display -name -class "},
    {" screen ", Reads::kCommand, Input::kData, " -S -t -h -T -s! -c! -p -X< "},
    {" entr ", Reads::kCommand, Input::kData, " "},
    {" systemd-run ", Reads::kCommand, Input::kData,
     " -u --unit -p --property -E --setenv -M --machine --slice --description --uid --gid "
     "--working-directory --nice --service-type --on-active --on-boot --on-calendar -H --host "},

    // Shells and other interpreters: a program, then its arguments.
    {" sh bash dash ash ksh mksh zsh rbash yash posh csh tcsh ", Reads::kProgram,
     Input::kProgramIfNoneGiven, " -o -O +o +O -s< --rcfile! --init-file! "},
    {" fish ", Reads::kProgram, Input::kProgramIfNoneGiven, " -c* --command* -C! --init-command! "},
    {" python pypy ", Reads::kProgram, Input::kProgramIfNoneGiven,
     " -c. -m. -W -X --check-hash-based-pycs "},
    {" perl ", Reads::kProgram, Input::kProgramIfNoneGiven, " -e* -E* -I! "},
    {" ruby ", Reads::kProgram, Input::kProgramIfNoneGiven,
     " -e* -I! -r! -C -E -F --encoding --external-encoding "
     "--internal-encoding "},
    {" node nodejs ", Reads::kProgram, Input::kProgramIfNoneGiven,
     " -e* --eval* -p* -pe* --print* -r! --require! --import! --loader! --experimental-loader! "
     "--env-file! -C --conditions --title --input-type --watch-path --redirect-warnings "
     "--test-name-pattern --test-reporter --test-reporter-destination "},
    {" php ", Reads::kProgram, Input::kProgramIfNoneGiven,
     " -r* -f* -B* -R* -F* -E* -d! -c! -z! -S -t "},
    {" lua luajit ", Reads::kProgram, Input::kProgramIfNoneGiven, " -e* -l! "},
    {" Rscript julia groovy osascript pwsh bun tclsh expect gdb gnuplot octave ed ex sftp lftp ",
     Reads::kProgram, Input::kProgramIfNoneGiven, " -e* -c* -b* -x* "},
    {" awk gawk mawk nawk ", Reads::kProgram, Input::kData,
     " -v --assign -F --field-separator -f* --file* -e* --source* -E. --exec. -i! --include! -l! "
     "--load! -W! "},
    {" source . ", Reads::kProgram},
    {" git ", Reads::kProgram, Input::kData,
     " -C --git-dir --work-tree --namespace -c! --exec-path! --config-env! "},
    {" printf ", Reads::kProgram, Input::kData, " -v! "},

    // Options may follow their program.
    {" sed gsed ", Reads::kProgramAmongOptions, Input::kData,
     " -e* --expression* -f* --file* -l --line-length "},
    {" jq ", Reads::kProgramAmongOptions, Input::kData,
     " --arg2 --argjson2 --slurpfile2 --rawfile2 --indent -f* --from-file* -L! "},
    {" psql ", Reads::kProgramAmongOptions, Input::kProgramIfNoneGiven,
     " -c* --command* -f* --file* -v --set --variable -d --dbname -h --host -p --port -U "
     "--username "
     "-F --field-separator -R --record-separator -P --pset -T --table-attr -o! --output! ",
     9},
    {" mysql mariadb ", Reads::kProgramAmongOptions, Input::kProgramIfNoneGiven,
     " -e* --execute* --init-command! --pager! --defaults-file! --defaults-extra-file! -h --host "
     "-P "
     "--port -u --user -D --database -S --socket ",
     9},
    {" vim vi nvim view ", Reads::kProgramAmongOptions, Input::kData,
     " -c! --cmd! -S! -s! -u! -U! -i! ", 9},
    {" emacs ", Reads::kProgramAmongOptions, Input::kData,
     " --eval! --execute! -f! --funcall! -l! --load! --script! -L! --directory! ", 9},
    {" sqlite ", Reads::kCode, Input::kProgramIfNoneGiven,
     " -cmd! -init! -separator -nullvalue -newline -vfs ", 1},

    // All operands are data, but one of their options runs a program.
    {" tar gtar bsdtar ", Reads::kProgramAmongOptions, Input::kData,
     " -f --file -C --directory -T --files-from -X --exclude-from --exclude --transform --xform "
     "--strip-components --one-top-level -b --blocking-factor -g --listed-incremental -K "
     "--starting-file -L --tape-length -N --newer --after-date --newer-mtime -V --label --owner "
     "--group --mode --mtime --format -H --suffix --backup --level --sort --pax-option --owner-map "
     "--group-map --add-file -I! --use-compress-program! --to-command! --checkpoint-action! -F! "
     "--info-script! --new-volume-script! --rsh-command! --rmt-command! ",
     9},
    {" scp ", Reads::kProgramAmongOptions, Input::kData, " -c -D! -F! -i -J! -l -o! -P -S! -X ", 9},
    {" zip ", Reads::kProgramAmongOptions, Input::kData,
     " -TT! --unzip-command! -b --temp-path -t --from-date -tt --before-date -n --suffixes -P "
     "--password -s --split-size -i --include -x --exclude -O --output-file ",
     9},
    {" wget ", Reads::kProgramAmongOptions, Input::kData,
     " --use-askpass! -e! --execute! --config! -O --output-document -o --output-file -a "
     "--append-output -P --directory-prefix -U --user-agent -t --tries -T --timeout -w --wait "
     "--waitretry -Q --quota -A --accept -R --reject -D --domains -I --include-directories -X "
     "--exclude-directories -B --base -i --input-file -l --level --header --user --password "
     "--post-data --post-file --method --body-data --body-file --limit-rate --referer "
     "--load-cookies --save-cookies --certificate --private-key --ca-certificate --ca-directory "
     "--dns-timeout --connect-timeout --read-timeout --max-redirect --cut-dirs --default-page "
     "--http-user --http-password --ftp-user --ftp-password --proxy-user --proxy-password "
     "--bind-address --secure-protocol --start-pos --restrict-file-names --progress "
     "--retry-on-http-error ",
     9},
    {" split ", Reads::kProgramAmongOptions, Input::kData,
     " --filter! -a --suffix-length --additional-suffix -b --bytes -C --line-bytes -l --lines -n "
     "--number -t --separator ",
     9},
    {" git-clone git-fetch git-pull git-ls-remote ", Reads::kProgramAmongOptions, Input::kData,
     " -u! --upload-pack! -c! --config! --template! --exec! -o --origin --server-option -b "
     "--branch "
     "--depth --deepen --shallow-since --shallow-exclude --reference --reference-if-able "
     "--separate-git-dir --filter -j --jobs --refmap --recurse-submodules -s --strategy -X "
     "--strategy-option --sort --negotiation-tip ",
     9},
    {" git-grep ", Reads::kProgramAmongOptions, Input::kData,
     " -O! --open-files-in-pager! -e -f -A --after-context -B --before-context -C --context -m "
     "--max-count --max-depth --threads ",
     9},
    {" git-rebase git-difftool ", Reads::kProgramAmongOptions, Input::kData,
     " -x! --exec! --extcmd! -t! --tool! --onto -s --strategy -X --strategy-option -C "
     "--whitespace --empty ",
     9},
    {" git-config ", Reads::kProgram, Input::kData, " -f --file --blob --type --default "},

    // All is code.
    {" git-filter-branch tmux ", Reads::kCode},
    {" ssh ", Reads::kCode, Input::kProgram,
     " -B -b -c -D -E -e -F! -I! -i -J! -L -l -m -O -o! -p -Q -R -S! -W -w ", 1},
    {" su runuser script parallel at batch crontab ", Reads::kCode, Input::kProgram, " -u "},
    {" bc dc m4 ", Reads::kCode, Input::kProgram},
    {" watch ", Reads::kCode, Input::kData, " -n --interval "},
    {" make gmake ", Reads::kCode, Input::kData, " -C --directory -j --jobs -f! --file! "},
    {" eval trap alias let read unset mapfile readarray getopts compgen complete wait enable hash "
     "bind jobs fc ",
     Reads::kCode},
};

/// The shell runs or evaluates them.
constexpr std::string_view kVariables[] = {
    "PS0", "PS1", "PS2", "PS3", "PS4", "ENV", "BASH_ENV", "PROMPT_COMMAND", "OPTIND", "RANDOM",
    "SRANDOM", "HISTCMD", "SECONDS", "IFS", "SHELL", "SHELLOPTS", "BASHOPTS",
    // They name programs, or files and options that programs read as code.
    "PATH", "EDITOR", "VISUAL", "PAGER", "LESSOPEN", "LESSCLOSE", "MAKEFLAGS", "MAKEFILES",
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "PERL5DB", "RUBYOPT",
    "RUBYLIB", "NODE_OPTIONS", "NODE_PATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_PAGER",
    "GIT_ASKPASS", "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "JAVA_TOOL_OPTIONS"};

}  // namespace

std::string_view ProgramName(std::string_view word) {
  word = BaseName(word);
  const std::size_t end = word.find_last_not_of("0123456789.-");
  return end == std::string_view::npos ? word : word.substr(0, end + 1);
}

const ShellGrammar* FindGrammar(std::string_view word) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const ShellGrammar*> grammars;
    for (const ShellGrammar& grammar : kGrammars) {
      std::size_t at = 1;
      for (std::size_t end; (end = grammar.names.find(' ', at)) != std::string_view::npos;
           at = end + 1)
        grammars.emplace(grammar.names.substr(at, end - at), &grammar);
    }
    return grammars;
  }();
  for (const std::string_view name : {BaseName(word), ProgramName(word)})  // m4 is no version of m
    if (const auto found = kByName.find(name); found != kByName.end()) return found->second;
  return nullptr;
}

OptionKind KindOf(const ShellGrammar& grammar, std::string_view option) {
  if (option.size() < 2) return OptionKind::kFlag;
  const std::string_view options = grammar.options;
  const std::string written = ' ' + std::string(option);
  const bool may_be_cut = option.size() > 2 && option.starts_with("--");
  for (std::size_t at = options.find(written); at != std::string_view::npos;
       at = options.find(written, at + 1)) {
    const std::size_t end = options.find(' ', at + 1);
    constexpr std::string_view kKinds = "2!*.<";
    const bool marked = kKinds.find(options[end - 1]) != std::string_view::npos;
    if (may_be_cut || end - at == written.size() + (marked ? 1 : 0))
      return marked ? static_cast<OptionKind>(options[end - 1]) : OptionKind::kData;
  }
  return OptionKind::kFlag;
}

bool IsSpecialVariable(std::string_view name) {
  return name.starts_with("LD_") || name.starts_with("BASH_FUNC_") ||
         std::ranges::find(kVariables, name) != std::end(kVariables);
}

}  // namespace headworks::expr::internal
