#include "leftovers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "supervisor/cgroup.h"
#include "supervisor/proc.h"

namespace headworks::executor_process {
namespace {

using supervisor::Process;

constexpr auto kPause = std::chrono::milliseconds(2);

std::vector<pid_t> SelfAndAncestors(const std::vector<Process>& all) {
  std::vector<pid_t> line{getpid()};
  while (true) {
    const auto p = std::ranges::find(all, line.back(), &Process::pid);
    if (p == all.end() || p->parent <= 0) return line;
    line.push_back(p->parent);
  }
}

/// What of `all` belongs to the attempts; `known` holds what was found before.
std::vector<Process> Find(const std::vector<Process>& all, std::string_view store_id,
                          const std::vector<pid_t>& sessions, const std::set<pid_t>& known) {
  const std::vector<pid_t> spared = SelfAndAncestors(all);
  std::vector<pid_t> roots;
  std::vector<Process> found;
  for (const Process& p : all) {
    if (std::ranges::find(spared, p.pid) != spared.end()) continue;
    supervisor::AttemptKey key;
    const bool ours = known.contains(p.pid) ||
                      std::ranges::find(sessions, p.session) != sessions.end() ||
                      supervisor::ParseMark(supervisor::ReadMark(p.pid), store_id, key);
    if (!ours) continue;
    roots.push_back(p.pid);
    found.push_back(p);
  }
  for (const Process& p : supervisor::Descendants(all, roots)) found.push_back(p);
  return found;
}

}  // namespace

SweepReport SweepLeftovers(std::string_view store_id, const std::vector<pid_t>& sessions,
                           const std::string& group, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  std::set<pid_t> known, killed;
  SweepReport report;
  while (true) {
    report.remaining.clear();
    const std::vector<pid_t> members = supervisor::GroupMembers(group);
    known.insert(members.begin(), members.end());
    // This process may itself descend from what is swept: then one by one.
    if (!members.empty() && std::ranges::find(members, getpid()) == members.end()) {
      killed.insert(members.begin(), members.end());
      supervisor::KillGroup(group);
    }
    const std::vector<Process> all = supervisor::ListProcesses();
    for (const Process& p : Find(all, store_id, sessions, known)) {
      if (p.state == 'Z') {
        // Another parent's zombie is over; ours has to be taken from the table.
        if (p.parent == getpid()) waitpid(p.pid, nullptr, WNOHANG);
        continue;
      }
      report.remaining.push_back(p.pid);
      if (supervisor::Signal(p, SIGKILL)) killed.insert(p.pid);
      known.insert(p.pid);
    }
    report.killed = killed.size();
    if (report.remaining.empty() || std::chrono::steady_clock::now() >= deadline) return report;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace headworks::executor_process
