// The side of a new communicator that made its unique id: it collects the ranks, from this host and from others, and when
// all have come it gives each the segment of its host, or tells it who will. When that has come to nothing it stays, so that
// a rank that comes later hears why from somebody: to a closed door it would conclude that the convener is dead.
//
// Threads: one of its own, which ends when all ranks have come, or have been told why it came to nothing, or when ten
// minutes have passed in which nobody came. Must not know: what is in the segment.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "hostccl/doors.h"
#include "hostccl/hostccl.h"
#include "hostccl/meeting_wire.h"
#include "hostccl/net/descriptor.h"

namespace hostccl {

class Convener {
 public:
  // remote: null when it convenes the ranks of this host only.
  Convener(const Bytes16& secret, LocalDoor local, std::unique_ptr<RemoteDoor> remote);

  // Starts the thread, which owns the convener.
  static pycomms::Status start(std::unique_ptr<Convener> convener);

 private:
  struct Guest {
    pycomms::Fd local;  // one of the two
    net::Descriptor remote;
    JoinRequest request{};
    size_t heard = 0;           // bytes of it
    bool owes_address = false;  // on this host, and there are others
    bool settled = false;       // sees all others

    bool is_remote() const { return static_cast<bool>(remote); }
    int fd() const { return is_remote() ? remote.get() : local.get(); }
    bool has_said_hello() const { return heard == sizeof(request); }
    int rank() const { return has_said_hello() ? request.rank : -1; }
  };

  void run();
  void wait_for_something();
  void let_in();
  void listen_to(size_t index);
  void hear_address(size_t index);
  void hear_again(size_t index, bool spoke);
  void welcome(Guest& guest);
  void hand_out();
  void send_roster();
  void send_away(size_t index);
  void refuse_all(const Failure& failure);
  void refuse(const Guest& guest);
  Failure missing_ranks() const;

  const Bytes16 secret_;
  LocalDoor local_;
  std::unique_ptr<RemoteDoor> remote_;
  std::vector<Guest> guests_;
  int nranks_ = 0;
  size_t segment_bytes_ = 0;
  pycomms::Deadline deadline_;
  bool handed_out_ = false;  // from here on the ranks watch the deadline themselves
  std::optional<Failure> refusal_;
  std::vector<int> refused_;  // the ranks that have been told
  bool over_ = false;
};

}  // namespace hostccl
