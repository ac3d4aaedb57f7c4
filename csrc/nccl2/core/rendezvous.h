// How the members of a communicator find each other: the first rank's unique id reaches the others.
// Called once per communicator by the thread that connects it. Must not know: where the id travels.
#pragma once

#include "base/clock.h"
#include "nccl2/core/error.h"
#include "nccl2/driver/nccl_api.h"

namespace pycomms {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual Error publish(const UniqueId& id) = 0;
  virtual Error fetch(UniqueId* id, Deadline deadline) = 0;
};

}  // namespace pycomms
