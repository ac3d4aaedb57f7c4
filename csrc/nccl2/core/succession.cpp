#include "nccl2/core/succession.h"

#include <algorithm>
#include <utility>

namespace pycomms {
namespace {

Succession anew(std::string reason) {
  Succession succession;
  succession.way = Succession::Way::kAnew;
  succession.reason = std::move(reason);
  return succession;
}

std::vector<int> missing_ranks(const std::vector<int>& old_ranks, int size) {
  std::vector<int> missing;
  for (int rank = 0; rank < size; ++rank) {
    if (std::find(old_ranks.begin(), old_ranks.end(), rank) == old_ranks.end()) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

Succession decide_succession(const std::vector<Heritage>& by_rank) {
  const auto has_one = [](const Heritage& one) { return one.rank >= 0; };
  const auto first = std::find_if(by_rank.begin(), by_rank.end(), has_one);
  if (first == by_rank.end()) return {};
  if (first->identity == 0) return anew("it is not known which communicator the old one was");
  const auto follows = [&](const Heritage& one) { return has_one(one) && one.identity == first->identity; };
  const auto survivors = static_cast<size_t>(std::count_if(by_rank.begin(), by_rank.end(), follows));
  if (!std::all_of(by_rank.begin(), by_rank.begin() + survivors, follows)) {
    return anew("newcomers are not behind the members of the old one");
  }
  if (std::any_of(by_rank.begin() + survivors, by_rank.end(), has_one)) {
    return anew("the members come from different communicators");
  }
  Succession succession;
  succession.way = Succession::Way::kOfOld;
  succession.survivors = static_cast<int>(survivors);
  succession.grows = survivors < by_rank.size();
  std::vector<int> old_ranks;
  bool can_shrink = true;
  for (size_t rank = 0; rank < survivors; ++rank) {
    old_ranks.push_back(by_rank[rank].rank);
    can_shrink = can_shrink && by_rank[rank].can_shrink != 0;
    succession.revokes = succession.revokes || by_rank[rank].is_calm == 0;
  }
  const bool in_order = std::is_sorted(old_ranks.begin(), old_ranks.end());
  succession.excluded = missing_ranks(old_ranks, first->size);
  if (succession.excluded.empty()) {
    // NCCL makes a communicator of the same members by a split, which needs one that is well.
    if (succession.revokes) return anew("the old one has failed, and nobody is excluded");
    succession.reorders = !succession.grows || !in_order;
  } else if (!in_order) {
    return anew("the members that stay change their order");
  } else if (!can_shrink) {
    return anew("the engine cannot shrink");
  }
  const auto can_grow = [](const Heritage& one) { return one.can_grow != 0; };
  if (succession.grows && !std::all_of(by_rank.begin(), by_rank.end(), can_grow)) return anew("the engine cannot grow");
  // As of NCCL 2.30.
  if (succession.grows && survivors == 1) return anew("a communicator of one rank cannot grow");
  return succession;
}

}  // namespace pycomms
