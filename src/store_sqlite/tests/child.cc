#include "tests/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/engine.h"

namespace headworks::store_sqlite {

Child::Child(const std::vector<std::string>& part) {
  std::array<int, 2> out{};
  EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<std::string> words{"store_sqlite_test", "--part"};
  words.insert(words.end(), part.begin(), part.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) answer_.push_back(c);
  close(out[0]);
}

Child::~Child() { Kill(); }

void Child::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

namespace {

Status Own(const std::string& path, std::unique_ptr<store::Database>& db) {
  HEADWORKS_ASSIGN(db, Open(path, {}));
  Engine engine(*db);
  HEADWORKS_TRY(engine.Own("child"));
  return engine.Commit(store::conformance::NewRun(store::conformance::PlainHeader(RunNo(1))));
}

}  // namespace

int PlayPart(int argc, char** argv) {
  const std::vector<std::string> part(argv + 2, argv + argc);
  std::unique_ptr<store::Database> db;
  Status status;
  if (part.at(0) == "own") status = Own(part.at(1), db);
  const std::string answer =
      (status ? "ok" : std::string(CodeName(status.error().code)) + ": " + status.error().message) +
      "\n";
  if (write(STDOUT_FILENO, answer.data(), answer.size()) < 0) return 1;
  for (;;) pause();
}

}  // namespace headworks::store_sqlite

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--part") {
    return headworks::store_sqlite::PlayPart(argc, argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
