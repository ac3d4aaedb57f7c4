// What the convener of a new communicator makes of ranks that leave: it names who is to blame, and by its rank.

#include <linux/futex.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/clock.h"
#include "check.h"
#include "hostccl/convener.h"
#include "hostccl/doors.h"
#include "hostccl/hostccl.h"
#include "hostccl/layout.h"
#include "hostccl/meeting_talk.h"
#include "hostccl/places.h"
#include "hostccl/segment.h"
#include "hostccl_joining.h"
#include "hostccl_world.h"

using namespace nccl_abi;
using namespace hostccl;
using hostccl_test::begin_joining;
using hostccl_test::end_of;
using hostccl_test::failure_of;
using hostccl_test::kPatience;
using hostccl_test::meeting;
using hostccl_test::my_address;
using hostccl_test::names;

namespace {

const std::atomic<bool> kNotCancelled{false};

MeetingPlace place_of(const UniqueId& id) {
  MeetingPlace place;
  std::memcpy(&place, id.internal, sizeof(place));
  return place;
}

// A rank that talks to the convener without a communicator.
class Visitor {
 public:
  Visitor(const UniqueId& id, int rank, int nranks) {
    const MeetingPlace place = place_of(id);
    auto socket = knock_at_door(place.secret, place.convener.host);
    CHECK(socket.is_ok());
    socket_ = socket.take();
    const JoinRequest request{place.secret,       place.agenda, rank,          nranks, Layout(nranks).total_bytes(),
                              reduces_by_hosts(), kPatience,    place.convener};
    CHECK(tell(socket_.get(), std::as_bytes(std::span(&request, 1))));
  }

  bool is_sent_away() {
    JoinReply reply{};
    return hear(socket_.get(), reply, segment_, pycomms::Deadline::after(kPatience), kNotCancelled) == Heard::kGone;
  }
  JoinReply hear_reply() {
    JoinReply reply{};
    CHECK(hear(socket_.get(), reply, segment_, pycomms::Deadline::after(kPatience), kNotCancelled) == Heard::kAll);
    return reply;
  }
  // When it has been welcomed: writes into the segment what the kernel would if this rank were killed.
  void die(int rank, int nranks) {
    auto mapping = pycomms::SharedMapping::map(segment_);
    CHECK(mapping.is_ok());
    Segment segment(mapping.take(), Places(nranks), rank);
    segment.mine().pid.store(getpid(), std::memory_order_relaxed);
    segment.mine().presence.store(Presence::kPresent, std::memory_order_seq_cst);
    segment.mine().life.word.store(FUTEX_OWNER_DIED, std::memory_order_seq_cst);
    segment.ring_all();
  }

 private:
  pycomms::Fd socket_;
  pycomms::Fd segment_;
};

}  // namespace

// The kernel tells of a death by the shared memory before it closes the connections of the dead: here they stay open.
TEST(who_leaves_because_of_a_death_is_not_taken_for_the_dead) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  CommHandle comm = begin_joining(id, 1, 3);
  Visitor witness(id, 0, 3);
  Visitor victim(id, 2, 3);
  CHECK_EQ(witness.hear_reply().ok, 1);
  CHECK_EQ(victim.hear_reply().ok, 1);
  victim.die(2, 3);
  CHECK_EQ(end_of(comm), kRemoteError);
  const Failure told = witness.hear_reply().failure;
  for (const Failure& failure : {failure_of(comm), told}) {
    CHECK(failure.kind == FailureKind::kPeerDead);
    CHECK(names(failure, 2) && failure.nranks == 1);
  }
  CHECK_EQ(ncclCommAbort(comm), kSuccess);
}

TEST(who_leaves_for_a_reason_of_its_own_says_it) {
  UniqueId id;
  CHECK_EQ(ncclGetUniqueId(&id), kSuccess);
  Visitor witness(id, 0, 2);
  CommHandle comm = begin_joining(id, 1, 2);
  CHECK_EQ(witness.hear_reply().ok, 1);
  CHECK_EQ(ncclCommAbort(comm), kSuccess);
  const Failure told = witness.hear_reply().failure;
  CHECK(told.kind == FailureKind::kPeerDead && names(told, 1) && told.nranks == 1);
  CHECK(std::strstr(told.text, "aborted") != nullptr);
}

// The ranks of a host other than the convener's meet there on their own, by the numbers that they have in the communicator.
TEST(who_leaves_or_misses_the_meeting_of_a_host_is_named_by_its_rank) {
  auto convene_host = [](const UniqueId& id, int64_t patience) {
    const MeetingPlace place = place_of(id);
    auto door = open_door(place.secret, place.convener.host);
    CHECK(door.is_ok());
    auto convener = std::make_unique<Convener>(place.secret, door.take(), nullptr);
    convener->expect_only({1, 3}, 4, pycomms::Deadline::after(patience));
    CHECK(Convener::start(std::move(convener)).is_ok());
  };
  const UniqueId id = meeting(my_address(), "one leaves");
  convene_host(id, kPatience);
  Visitor witness(id, 1, 4);
  Visitor of_another_host(id, 2, 4);
  CHECK(of_another_host.is_sent_away());
  {
    Visitor leaves(id, 3, 4);
    CHECK_EQ(witness.hear_reply().ok, 1);
  }
  const Failure left = witness.hear_reply().failure;
  CHECK(left.kind == FailureKind::kPeerDead && names(left, 3) && left.nranks == 1);

  const UniqueId other = meeting(my_address(), "one is missing");
  convene_host(other, 200 * pycomms::kMillisecond);
  const Failure missing = Visitor(other, 1, 4).hear_reply().failure;
  CHECK(missing.kind == FailureKind::kTimeout && names(missing, 3) && missing.nranks == 1);
}

CHECK_MAIN()
