#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headworks::executor_queue {

/// (run, epoch) names an attempt within a store.
using Id = std::pair<std::int64_t, std::int64_t>;
using PollNo = std::uint64_t;
/// Sorted, each once.
using Labels = std::vector<std::string>;

/// Where an attempt waits.
struct Place {
  std::string tenant;
  std::string queue;
  /// What its worker must have.
  Labels required = {};
  int priority = 0;
  /// Of its offer; unique.
  std::uint64_t order = 0;
  /// As its tenant's credit is counted.
  std::string line = {};
};

/// Is required where artifacts are to be passed on, and had by workers who do that: no label that
/// anybody gives, for it is no UTF-8.
inline constexpr std::string_view kPassesArtifacts = "\xfe";

/// Of the line of its tenant that it stands in: what it waits for, namely a worker of that queue
/// with those labels.
std::string NameOf(const Place& place);
/// Of whatever stands in the line of this name.
Place PlaceOfLine(std::string tenant, std::string_view name);

/// Which attempt a poll gets, and which poll an attempt.
///
/// Both are kept by tenant, queue and labels, so that a search looks at each set of labels once,
/// however many attempts or polls have it.
class Lines {
 public:
  void Add(const Id& id, const Place& place);
  void Remove(const Place& place);
  /// Removes and returns the first `most` whose requirements are among `labels`.
  std::vector<Id> Take(const std::string& tenant, const std::string& queue, const Labels& labels,
                       std::uint32_t most);

  /// A poll that would take an attempt of this queue.
  void AddPoll(PollNo poll, const std::string& tenant, const std::string& queue,
               const Labels& labels);
  void RemovePoll(PollNo poll, const std::string& tenant, const std::string& queue,
                  const Labels& labels);
  /// The one that has waited longest of those that may have it.
  std::optional<PollNo> PollFor(const Place& place) const;
  /// How many may have it.
  std::size_t PollsFor(const Place& place) const;
  /// Whether any would take an attempt of this tenant.
  bool HasPolls(const std::string& tenant) const { return polls_.contains(tenant); }

  bool empty() const { return queues_.empty(); }

 private:
  using Rank = std::pair<int, std::uint64_t>;  // priority, negative; order
  struct Queue {
    std::map<Labels, std::map<Rank, Id>> attempts;
    std::map<Labels, std::set<PollNo>> polls;
  };
  using Key = std::pair<std::string, std::string>;  // tenant, queue
  static Rank RankOf(const Place& place) { return {-place.priority, place.order}; }
  void EraseIfEmpty(std::map<Key, Queue>::iterator queue);

  std::map<Key, Queue> queues_;
  std::map<std::string, std::size_t> polls_;  // by tenant, each once per queue; none is 0
};

}  // namespace headworks::executor_queue
