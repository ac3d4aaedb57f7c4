// Who makes the unique ids of a new communicator. A large one has several, so that not all ranks go to one: the ranks are cut
// into as many runs of nearly the same length, and the first of each makes the id for its run. Pure functions.
#pragma once

#include <algorithm>

namespace pycomms {

// At most `per_root` ranks to an id; 0: one id for all.
constexpr int root_count(int size, int per_root) {
  return per_root <= 0 ? 1 : std::max(1, (size + per_root - 1) / per_root);
}

// The rank that makes id number `index` of `roots`. The first runs have the ranks that are left over.
constexpr int root_rank(int index, int size, int roots) {
  return index * (size / roots) + std::min(index, size % roots);
}

}  // namespace pycomms
