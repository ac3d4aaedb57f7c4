// How the communicator of a GPU follows a regroup of its group: made of the old one where the engine can do that, since then
// most of its connections stay, or anew. All members decide the same, from what each has told the others.
// Pure. Must not know: engines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pycomms {

// What a member tells about its old communicator on a GPU.
struct Heritage {
  uint64_t identity = 0;   // the same on all members of one communicator; 0: it has none that could be continued
  int32_t rank = -1;       // there
  int32_t size = 0;        // of it
  int32_t is_calm = 0;     // healthy, and nothing was in flight
  int32_t can_shrink = 0;  // what this member's engine can do
  int32_t can_grow = 0;
};

struct Succession {
  enum class Way : uint8_t {
    kNone,   // nobody has one
    kAnew,   // the first operation makes it
    kOfOld,  // of the old one: reordered or reduced, then extended
  };
  Way way = Way::kNone;
  bool reorders = false;      // the same members, perhaps with other ranks
  std::vector<int> excluded;  // ranks of the old one
  bool revokes = false;       // something is in flight there, or has failed
  int survivors = 0;          // they have the first of the new ranks
  bool grows = false;
  std::string reason;
};

// by_rank: what the members of the new group have told, by their new ranks.
Succession decide_succession(const std::vector<Heritage>& by_rank);

}  // namespace pycomms
