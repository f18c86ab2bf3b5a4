#include "lines.h"

#include <algorithm>
#include <functional>

namespace headworks::executor_queue {

// Names and labels are UTF-8, in which no such byte is.
std::string NameOf(const Place& place) {
  std::string name = place.queue;
  for (const std::string& label : place.required) name += '\xff' + label;
  return name;
}

Place PlaceOfLine(std::string tenant, std::string_view name) {
  Place place{.tenant = std::move(tenant), .queue = {}};
  for (std::string* part = &place.queue;; part = &place.required.emplace_back()) {
    const std::size_t end = name.find('\xff');
    *part = name.substr(0, end);
    if (end == std::string_view::npos) return place;
    name.remove_prefix(end + 1);
  }
}

void Lines::EraseIfEmpty(std::map<Key, Queue>::iterator queue) {
  if (queue->second.attempts.empty() && queue->second.polls.empty()) queues_.erase(queue);
}

void Lines::Add(const Id& id, const Place& place) {
  queues_[{place.tenant, place.queue}].attempts[place.required].emplace(RankOf(place), id);
}

void Lines::Remove(const Place& place) {
  const auto queue = queues_.find({place.tenant, place.queue});
  if (queue == queues_.end()) return;
  auto& attempts = queue->second.attempts;
  const auto line = attempts.find(place.required);
  if (line == attempts.end()) return;
  line->second.erase(RankOf(place));
  if (line->second.empty()) attempts.erase(line);
  EraseIfEmpty(queue);
}

std::vector<Id> Lines::Take(const std::string& tenant, const std::string& queue,
                            const Labels& labels, std::uint32_t most) {
  std::vector<Id> taken;
  const auto found = queues_.find({tenant, queue});
  if (found == queues_.end()) return taken;
  auto& attempts = found->second.attempts;
  using Line = decltype(found->second.attempts)::iterator;
  const auto later = [](const Line& a, const Line& b) {
    return a->second.begin()->first > b->second.begin()->first;
  };
  std::vector<Line> heads;  // a heap: the line whose first attempt is first of all
  for (auto line = attempts.begin(); line != attempts.end(); ++line)
    if (std::ranges::includes(labels, line->first)) heads.push_back(line);
  std::ranges::make_heap(heads, later);
  while (taken.size() < most && !heads.empty()) {
    std::ranges::pop_heap(heads, later);
    const Line line = heads.back();
    taken.push_back(line->second.begin()->second);
    line->second.erase(line->second.begin());
    if (line->second.empty()) {
      attempts.erase(line);
      heads.pop_back();
    } else {
      std::ranges::push_heap(heads, later);
    }
  }
  EraseIfEmpty(found);
  return taken;
}

void Lines::AddPoll(PollNo poll, const std::string& tenant, const std::string& queue,
                    const Labels& labels) {
  if (queues_[{tenant, queue}].polls[labels].insert(poll).second) ++polls_[tenant];
}

void Lines::RemovePoll(PollNo poll, const std::string& tenant, const std::string& queue,
                       const Labels& labels) {
  const auto found = queues_.find({tenant, queue});
  if (found == queues_.end()) return;
  auto& polls = found->second.polls;
  const auto alike = polls.find(labels);
  if (alike == polls.end()) return;
  if (alike->second.erase(poll) > 0)
    if (const auto count = polls_.find(tenant); --count->second == 0) polls_.erase(count);
  if (alike->second.empty()) polls.erase(alike);
  EraseIfEmpty(found);
}

std::optional<PollNo> Lines::PollFor(const Place& place) const {
  std::optional<PollNo> first;
  const auto found = queues_.find({place.tenant, place.queue});
  if (found == queues_.end()) return first;
  for (const auto& [labels, polls] : found->second.polls)
    if (std::ranges::includes(labels, place.required) && (!first || *polls.begin() < *first))
      first = *polls.begin();
  return first;
}

std::size_t Lines::PollsFor(const Place& place) const {
  std::size_t count = 0;
  const auto found = queues_.find({place.tenant, place.queue});
  if (found == queues_.end()) return count;
  for (const auto& [labels, polls] : found->second.polls)
    if (std::ranges::includes(labels, place.required)) count += polls.size();
  return count;
}

}  // namespace headworks::executor_queue
