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
#include "hostccl/residence.h"

namespace hostccl {

class Convener {
 public:
  // remote: null when it convenes the ranks of this host only.
  Convener(const Bytes16& secret, net::Descriptor local, std::unique_ptr<RemoteDoor> remote);
  // Before start(), one of the two, where it is known who will come.
  // All ranks, and where they are: one that ends before it has come is noticed at once.
  void expect(const std::vector<Whereabouts>& members, pycomms::Deadline deadline);
  // Only these of the `nranks` ranks: those of a host.
  void expect_only(std::vector<int> ranks, int nranks, pycomms::Deadline deadline);

  // Starts the thread, which owns the convener.
  static pycomms::Status start(std::unique_ptr<Convener> convener);

 private:
  struct Guest {
    net::Descriptor connection;
    bool is_remote = false;
    JoinRequest request{};
    size_t heard = 0;           // bytes of it
    bool owes_address = false;  // on this host, and there are others
    Farewell farewell{};
    size_t heard_last = 0;  // bytes of that
    bool settled = false;   // sees all others

    int fd() const { return connection.get(); }
    bool has_said_hello() const { return heard == sizeof(request); }
    int rank() const { return has_said_hello() ? request.rank : -1; }
  };

  void run();
  void wait_for_something();
  void let_in();
  void listen_to(size_t index);
  void hear_address(size_t index);
  void hear_farewell(size_t index);
  void lose(const Guest& guest, Failure why);
  void welcome(Guest& guest);
  void hand_out();
  void send_roster();
  void send_away(size_t index);
  void look_after_expected();
  int awaited() const { return only_.empty() ? nranks_ : static_cast<int>(only_.size()); }
  bool is_awaited(int rank) const;
  bool has_come(int rank) const;
  bool is_settled_with(int rank) const;
  void settle_with(int rank);
  void refuse_all(const Failure& failure);
  void refuse(const Guest& guest);
  Failure missing_ranks() const;

  const Bytes16 secret_;
  net::Descriptor local_;
  std::unique_ptr<RemoteDoor> remote_;
  std::vector<Guest> guests_;
  std::vector<Lifeline> expected_;    // by rank; empty: it is not known who will come
  std::vector<int> only_;             // come here; empty: all
  int nranks_ = 0;                    // of the communicator; 0: not known yet
  std::optional<JoinRequest> first_;  // of those who have come
  pycomms::Deadline deadline_;
  bool handed_out_ = false;  // from here on the ranks watch the deadline themselves
  std::optional<Failure> refusal_;
  std::vector<int> refused_;  // the ranks that have been told, or cannot be
  bool over_ = false;
};

}  // namespace hostccl
