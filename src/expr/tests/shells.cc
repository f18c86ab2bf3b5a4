#include "shells.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/json/object.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace headworks::expr {

std::string Program(Shell shell) { return shell == Shell::kBash ? "/bin/bash" : "/bin/sh"; }

std::string Run(Shell shell, const std::string& script,
                const std::vector<std::pair<std::string, std::string>>& bound,
                const std::string& folder) {
  std::string path = (std::filesystem::temp_directory_path() / "headworks_shell_XXXXXX").string();
  const int out = mkstemp(path.data());
  EXPECT_GE(out, 0);
  std::vector<std::string> environment = {"PATH=" + folder + ":/usr/bin:/bin"};
  for (const auto& [name, value] : bound) environment.push_back(name + "=" + value);
  std::vector<char*> pointers;
  pointers.reserve(environment.size() + 1);
  for (auto& entry : environment) pointers.push_back(entry.data());
  pointers.push_back(nullptr);
  std::string program = Program(shell);
  std::string option = "-c";
  std::string text = script;
  std::array<char*, 4> arguments = {program.data(), option.data(), text.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  EXPECT_EQ(
      posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), pointers.data()), 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  close(out);
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return read.str() + (status == 0 ? "" : "[failed]");
}

Environment Declared() {
  Environment environment;
  EXPECT_TRUE(environment.Declare("v", Type::Kind::kString));
  EXPECT_TRUE(environment.Declare("w", {}));
  return environment;
}

std::string Output(Shell shell, std::string_view script, std::string_view value) {
  std::vector<Fault> faults;
  const auto made = ShellTemplate::Parse(script, shell, Declared(), &faults);
  if (!made) {
    std::string all = "faults:";
    for (const Fault& fault : faults) all += "\n" + fault.message;
    return all;
  }
  const auto bound = made->Bind({{"v", value}, {"w", 7}}, {});
  return bound ? Run(shell, made->script(), *bound) : "error: " + bound.error().message;
}

std::string Refusal(Shell shell, std::string_view script) {
  std::vector<Fault> faults;
  if (ShellTemplate::Parse(script, shell, Declared(), &faults)) return "";
  std::string all;
  for (const Fault& fault : faults) {
    EXPECT_EQ(fault.kind, FaultKind::kShell) << fault.message;
    EXPECT_EQ(script.substr(fault.offset, 3), "${{");
    const std::size_t begin = fault.message.find("}}' ") + 4;
    const std::size_t end = fault.message.find(" put it into env");
    EXPECT_NE(end, std::string::npos) << fault.message;
    all += (all.empty() ? "" : " / ") + fault.message.substr(begin, end - begin);
  }
  return all;
}

}  // namespace headworks::expr
