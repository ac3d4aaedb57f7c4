#include "hostccl/bootstrap.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "hostccl/convener.h"
#include "hostccl/doors.h"
#include "hostccl/failures.h"
#include "hostccl/meeting_talk.h"
#include "hostccl/net/dial.h"
#include "hostccl/net/siphash.h"
#include "hostccl/places.h"
#include "hostccl/residence.h"

namespace hostccl {
namespace {

using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

constexpr int64_t kFirstPause = 100 * pycomms::kMicrosecond;  // before a door that is not open yet
constexpr int64_t kLongestPause = 2 * pycomms::kMillisecond;
constexpr int64_t kGrace = pycomms::kSecond;  // the reply that names the missing ranks comes just after the deadline

// One rank on its way into a communicator.
class Joining {
 public:
  // convener: the rank that convenes the others, where it is one of them.
  Joining(const MeetingPlace& place, std::optional<int> convener, int rank, int nranks, size_t bytes, Deadline deadline,
          const std::atomic<bool>& cancelled, Failure& why)
      : place_(place),
        convener_rank_(convener),
        rank_(rank),
        nranks_(nranks),
        bytes_(bytes),
        deadline_(deadline),
        cancelled_(cancelled),
        why_(why) {}

  std::optional<Lobby> run() {
    auto home = residence();
    if (!home.is_ok()) return refuse(FailureKind::kSystem, home.status().message());
    me_ = home.value();
    const bool is_local = me_.host == place_.convener.host;
    std::optional<Lobby> lobby = is_local ? enter() : enter_from_elsewhere();
    if (!lobby) return std::nullopt;
    if (say_hello(*lobby) && (!has_roster_ || meet_other_hosts(*lobby, is_local))) return lobby;
    lobby->leave(why_);
    return std::nullopt;
  }

 private:
  bool meet_other_hosts(Lobby& lobby, bool is_local) {
    if (is_local && !tell_address(lobby)) return false;
    return hear_roster(lobby) && (is_local || meet_on_host(lobby));
  }

  std::nullopt_t refuse(FailureKind kind, const std::string& text) {
    why_ = make_failure(kind, -1, text);
    return std::nullopt;
  }
  std::nullopt_t give_up(Heard heard) {
    if (heard == Heard::kCancelled) {
      return refuse(FailureKind::kAborted, "aborted while the communicator was being made");
    }
    if (heard == Heard::kTimeout) return absent_convener(FailureKind::kTimeout, "did not answer in time");
    return absent_convener(FailureKind::kPeerDead, "ended while the communicator was being made");
  }
  std::nullopt_t absent_convener(FailureKind kind, const std::string& what) {
    if (!convener_rank_) return refuse(kind, "the process that made the unique id " + what);
    refuse(kind, "rank " + std::to_string(*convener_rank_) + ", which convenes the others, " + what);
    add_rank(why_, *convener_rank_);
    return std::nullopt;
  }
  Deadline patience() const { return Deadline::at(deadline_.ns() + kGrace); }

  // The door may not be open yet: it is found by a secret that all may know before the convener does.
  std::optional<Lobby> enter() {
    Lifeline convener(place_.convener);
    for (int64_t pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      auto socket = knock_at_door(place_.secret, me_.host);
      if (socket.is_ok()) return Lobby(net::Descriptor(socket.take()));
      if (cancelled_.load(std::memory_order_acquire)) return give_up(Heard::kCancelled);
      if (convener.has_ended()) return give_up(Heard::kGone);
      if (deadline_.passed()) return absent_convener(FailureKind::kTimeout, "did not come in time");
      pycomms::sleep_for(pause);
    }
  }

  std::optional<Lobby> enter_from_elsewhere() {
    auto at = net::Address::decode(place_.convener.tcp);
    if (!at.is_ok() || at.value().is_none()) {
      return refuse(FailureKind::kSystem,
                    "the process that made the unique id is on another host, and has no network address");
    }
    if (!open_endpoint()) return std::nullopt;
    const net::Introduction who{net::derive(place_.secret, "meeting"), place_.secret, rank_, net::kAnyRank};
    net::Dial dial(who, at.value(), endpoint_->address().scope(), endpoint_->socket_options(), deadline_);
    while (!dial.is_over()) {
      if (cancelled_.load(std::memory_order_acquire)) return give_up(Heard::kCancelled);
      pollfd look{dial.fd(), static_cast<short>(dial.wants_to_write() ? POLLOUT : POLLIN), 0};
      constexpr int64_t kLookAround = 50 * pycomms::kMillisecond;
      const int64_t nap = std::clamp<int64_t>(dial.wake_at_ns() - pycomms::now_ns(), 0, kLookAround);
      static_cast<void>(poll(&look, 1, pycomms::poll_ms(nap)));
      dial.advance(pycomms::now_ns());
    }
    if (dial.state() == net::Dial::State::kConnected) return Lobby(dial.take());
    const bool refused = dial.state() == net::Dial::State::kRefused;
    const std::string how = refused ? net::verdict_text(dial.verdict()) : dial.status().message();
    return absent_convener(deadline_.passed() ? FailureKind::kTimeout : FailureKind::kPeerDead,
                           "cannot be reached at " + at.value().to_text() + ": " + how);
  }

  bool open_endpoint() {
    auto endpoint = process_endpoint();
    if (!endpoint.is_ok()) {
      refuse(FailureKind::kSystem, "cannot listen for other hosts: " + endpoint.status().message());
      return false;
    }
    endpoint_ = endpoint.value();
    me_.tcp = endpoint_->address().encode();
    return true;
  }

  bool say_hello(Lobby& lobby) {
    const JoinRequest request{place_.secret,      place_.agenda,    rank_, nranks_, bytes_,
                              reduces_by_hosts(), deadline_.left(), me_};
    if (!tell(lobby.fd(), std::as_bytes(std::span(&request, 1)))) return give_up(Heard::kGone), false;
    Fd segment;
    if (!hear_reply(lobby, segment)) return false;
    if (me_.host == place_.convener.host && !segment) {
      refuse(FailureKind::kSystem, "the shared segment did not come with the reply (descriptor limit reached?)");
      return false;
    }
    lobby.set_segment(std::move(segment));
    return true;
  }

  // False: it is a refusal, or there is none.
  bool hear_reply(Lobby& lobby, Fd& segment) {
    JoinReply reply{};
    if (const Heard heard = hear(lobby.fd(), reply, segment, patience(), cancelled_); heard != Heard::kAll) {
      return give_up(heard), false;
    }
    has_roster_ = reply.has_roster != 0;
    if (reply.ok != 0) return true;
    why_ = reply.failure;
    make_harmless(why_, nranks_);
    return false;
  }

  bool tell_address(const Lobby& lobby) {
    if (!open_endpoint()) return false;
    if (tell(lobby.fd(), std::as_bytes(std::span(&me_, 1)))) return true;
    return give_up(Heard::kGone), false;
  }

  bool hear_roster(Lobby& lobby) {
    if (Fd none; !hear_reply(lobby, none)) return false;
    std::vector<Whereabouts> roster(static_cast<size_t>(nranks_));
    const auto into = std::as_writable_bytes(std::span(roster));
    if (const Heard heard = hear(lobby.fd(), into, patience(), cancelled_); heard != Heard::kAll) {
      return give_up(heard), false;
    }
    lobby.set_roster(std::move(roster));
    return true;
  }

  Status convene_host(const std::vector<int>& here) {
    auto door = open_door(place_.secret, me_.host);
    if (!door.is_ok()) return door.status();
    auto convener = std::make_unique<Convener>(place_.secret, door.take(), nullptr);
    convener->expect_only(here, nranks_, deadline_);
    return Convener::start(std::move(convener));
  }

  // The ranks of a host that is not the convener's get their segment from the first of them, as on a single host.
  bool meet_on_host(Lobby& lobby) {
    const Places places = places_of(lobby.roster(), nranks_, rank_);
    const std::vector<int>& here = places.ranks_here();
    const int head = here.front();
    if (head == rank_) {
      if (Status started = convene_host(here); !started.is_ok()) {
        refuse(FailureKind::kSystem, started.message());
        return false;
      }
    }
    MeetingPlace there = place_;
    there.convener = lobby.roster()[static_cast<size_t>(head)];
    Joining local(there, head, rank_, nranks_, bytes_, deadline_, cancelled_, why_);
    std::optional<Lobby> of_host = local.run();
    if (!of_host) return false;
    lobby.set_segment(of_host->take_segment());
    of_host->leave();
    return true;
  }

  const MeetingPlace place_;
  const std::optional<int> convener_rank_;
  const int rank_;
  const int nranks_;
  const size_t bytes_;
  const Deadline deadline_;
  const std::atomic<bool>& cancelled_;
  Failure& why_;
  Whereabouts me_{};
  bool has_roster_ = false;
  std::shared_ptr<net::Endpoint> endpoint_;
};

// What a secret in words is hashed with; what makes it a secret are the words.
constexpr Bytes16 kPublicKey = {'p', 'y', 'c', 'o', 'm', 'm', 's', ' ', 'm', 'e', 'e', 't', 'i', 'n', 'g', '1'};

MeetingPlace meeting_place(const Bytes16& secret, const Whereabouts& convener) {
  MeetingPlace place{};
  std::memcpy(place.magic, kMeetingMagic, sizeof(kMeetingMagic));
  place.secret = secret;
  place.convener = convener;
  return place;
}

nccl_abi::UniqueId to_id(const MeetingPlace& place) {
  nccl_abi::UniqueId id{};
  std::memcpy(id.internal, &place, sizeof(place));
  return id;
}

MeetingPlace place_of(const nccl_abi::UniqueId& id) {
  MeetingPlace place;
  std::memcpy(&place, id.internal, sizeof(place));
  return place;
}

}  // namespace

pycomms::Result<nccl_abi::UniqueId> create_unique_id() {
  auto home = residence();
  if (!home.is_ok()) return home.status();
  auto secret = net::random_bytes16();
  if (!secret.is_ok()) return secret.status();
  MeetingPlace place = meeting_place(secret.value(), home.value());
  std::unique_ptr<RemoteDoor> remote = RemoteDoor::open(place.secret);
  if (remote != nullptr) place.convener.tcp = remote->address().encode();
  auto door = open_door(place.secret, place.convener.host);
  if (!door.is_ok()) return door.status();
  PYCOMMS_RETURN_IF_ERROR(Convener::start(std::make_unique<Convener>(place.secret, door.take(), std::move(remote))));
  return to_id(place);
}

nccl_abi::UniqueId meeting_id(const Whereabouts& convener, const std::string& secret, const std::string& agenda) {
  const auto where = std::as_bytes(std::span(&convener, 1));
  MeetingPlace place = meeting_place(net::siphash(net::derive(kPublicKey, secret), where), convener);
  place.agenda = net::derive(place.secret, agenda);
  return to_id(place);
}

Status convene(const nccl_abi::UniqueId& id, const std::vector<Whereabouts>& members, Deadline deadline) {
  const MeetingPlace place = place_of(id);
  let_visitors_go();
  auto door = open_door(place.secret, place.convener.host);
  if (!door.is_ok()) return door.status();
  auto is_elsewhere = [&](const Whereabouts& member) { return member.host != place.convener.host; };
  std::unique_ptr<RemoteDoor> remote;
  if (std::any_of(members.begin(), members.end(), is_elsewhere)) {
    remote = RemoteDoor::open(place.secret);
    if (remote == nullptr) return Status(pycomms::Code::kSystem, "this process has no network address");
  }
  auto convener = std::make_unique<Convener>(place.secret, door.take(), std::move(remote));
  convener->expect(members, deadline);
  return Convener::start(std::move(convener));
}

Bytes16 secret_of(const nccl_abi::UniqueId& id) { return place_of(id).secret; }

Places places_of(const std::vector<Whereabouts>& roster, int nranks, int rank) {
  if (roster.empty()) return Places(nranks);
  std::vector<Bytes16> hosts;
  std::vector<int> host_of;
  for (const Whereabouts& one : roster) {
    const auto known = std::find(hosts.begin(), hosts.end(), one.host);
    host_of.push_back(static_cast<int>(known - hosts.begin()));
    if (known == hosts.end()) hosts.push_back(one.host);
  }
  return Places(std::move(host_of), rank);
}

std::optional<Lobby> join(const nccl_abi::UniqueId& id, int rank, int nranks, size_t bytes, Deadline deadline,
                          const std::atomic<bool>& cancelled, Failure& why) {
  const MeetingPlace place = place_of(id);
  if (!place.is_ours()) {
    why = make_failure(FailureKind::kUsage, -1,
                       "the unique id was not made by this library (or by another version of it)");
    return std::nullopt;
  }
  const std::optional<int> convener = place.agenda != Bytes16{} ? std::optional(0) : std::nullopt;
  return Joining(place, convener, rank, nranks, bytes, deadline, cancelled, why).run();
}

void Lobby::leave(const Failure& why) {
  const Farewell farewell{why};
  static_cast<void>(tell(fd(), std::as_bytes(std::span(&farewell, 1))));  // nobody there: nobody cares
  connection_.reset();
}

bool Lobby::all_well(int nranks, Failure& why) const {
  JoinReply reply{};
  // Left where it is until all of it is there.
  if (recv(fd(), &reply, sizeof(reply), MSG_DONTWAIT | MSG_PEEK) != sizeof(reply) || reply.ok != 0) return true;
  why = reply.failure;
  make_harmless(why, nranks);
  return false;
}

}  // namespace hostccl
