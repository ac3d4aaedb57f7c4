// Operations that are issued together, as in a group: their point-to-point requests progress together, also with the
// collectives in between. May run more than once. Threads: one at a time.
// Must not know: streams. Does not keep its communicators alive.
#pragma once

#include <string>
#include <vector>

#include "hostccl/communicator.h"
#include "hostccl/op.h"

namespace hostccl {

class Batch {
 public:
  void add(Communicator& comm, const Collective& op);
  void add(Communicator& comm, const P2pRequest& request);

  // On the calling thread; the first error.
  Result run(bool interruptible);

  // Each once, in one order on all ranks that have issued the same.
  std::vector<Communicator*> communicators() const;
  // The first operation: "all_reduce float32[8] sum".
  std::string describe() const;
  // Replaces every address of a caller's buffer.
  void relocate(void* (*to)(const void*));

 private:
  struct IssuedCollective {
    Communicator* comm;
    QueuedCollective queued;
    int64_t timeout_ns;
  };
  struct IssuedRequest {
    Communicator* comm;
    P2pRequest request;
  };
  void post(std::vector<P2pEnding>& endings);

  std::vector<IssuedRequest> requests_;
  std::vector<IssuedCollective> collectives_;
};

}  // namespace hostccl
