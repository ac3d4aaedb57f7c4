// How the members of a communicator find each other: the unique ids of the ranks that make one (roots.h) and reach the others.
// Called once per communicator by the thread that connects it. Must not know: where the id travels.
#pragma once

#include "base/clock.h"
#include "nccl2/core/error.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  // On the rank that makes it: an id that the others will get. alone: there are no others.
  virtual Error make(const Engine& engine, int index, bool alone, UniqueId* id, Deadline deadline) = 0;
  // root: the rank that makes it, for messages. Each rank fetches each id once, but those it has made.
  virtual Error fetch(int index, int root, UniqueId* id, Deadline deadline) = 0;
};

}  // namespace pycomms
