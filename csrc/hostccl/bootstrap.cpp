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

namespace hostccl {
namespace {

using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

constexpr int64_t kGrace = pycomms::kSecond;  // the reply that names the missing ranks comes just after the deadline

// One rank on its way into a communicator.
class Joining {
 public:
  Joining(const MeetingPlace& place, int rank, int nranks, size_t bytes, Deadline deadline,
          const std::atomic<bool>& cancelled, Failure& why)
      : place_(place),
        rank_(rank),
        nranks_(nranks),
        bytes_(bytes),
        deadline_(deadline),
        cancelled_(cancelled),
        why_(why) {}

  std::optional<Lobby> run() {
    auto host = this_host();
    if (!host.is_ok()) return refuse(FailureKind::kSystem, host.status().message());
    me_.host = host.value();
    const bool is_local = me_.host == place_.host;
    std::optional<Lobby> lobby = is_local ? enter() : enter_from_elsewhere();
    if (!lobby || !say_hello(*lobby)) return std::nullopt;
    if (!has_roster_) return lobby;
    if (is_local && !tell_address(*lobby)) return std::nullopt;
    if (!hear_roster(*lobby)) return std::nullopt;
    if (!is_local && !meet_on_host(*lobby)) return std::nullopt;
    return lobby;
  }

 private:
  std::nullopt_t refuse(FailureKind kind, const std::string& text) {
    why_ = make_failure(kind, -1, text);
    return std::nullopt;
  }
  std::nullopt_t give_up(Heard heard) {
    if (heard == Heard::kCancelled) {
      return refuse(FailureKind::kAborted, "aborted while the communicator was being made");
    }
    if (heard == Heard::kTimeout) return refuse(FailureKind::kTimeout, "no answer while joining");
    return refuse(FailureKind::kPeerDead,
                  "the process that made the unique id ended while the communicator was being made");
  }
  Deadline patience() const { return Deadline::at(deadline_.ns() + kGrace); }

  std::optional<Lobby> enter() {
    auto socket = knock(place_.socket);
    if (!socket.is_ok()) {
      return refuse(FailureKind::kPeerDead,
                    "the process that made the unique id is gone: " + socket.status().message());
    }
    return Lobby(socket.take(), {});
  }

  std::optional<Lobby> enter_from_elsewhere() {
    auto at = net::Address::decode(place_.tcp);
    if (!at.is_ok() || at.value().is_none()) {
      return refuse(FailureKind::kSystem,
                    "the process that made the unique id is on another host, and has no network address");
    }
    if (!open_endpoint()) return std::nullopt;
    auto door = LocalDoor::open();
    if (!door.is_ok()) return refuse(FailureKind::kSystem, door.status().message());
    door_ = door.take();
    std::memcpy(me_.socket, door_.name, sizeof(me_.socket));
    const net::Introduction who{net::derive(place_.secret, "meeting"), place_.secret, rank_, net::kAnyRank};
    net::Dial dial(who, at.value(), endpoint_->address().scope(), endpoint_->socket_options(), deadline_);
    while (!dial.is_over()) {
      if (cancelled_.load(std::memory_order_acquire)) return give_up(Heard::kCancelled);
      pollfd look{dial.fd(), static_cast<short>(dial.wants_to_write() ? POLLOUT : POLLIN), 0};
      constexpr int64_t kLookAround = 50 * pycomms::kMillisecond;
      const int64_t nap = std::clamp<int64_t>(dial.wake_at_ns() - pycomms::now_ns(), 0, kLookAround);
      static_cast<void>(poll(&look, 1, poll_ms(nap)));
      dial.advance(pycomms::now_ns());
    }
    if (dial.state() == net::Dial::State::kConnected) return Lobby({}, dial.take());
    const bool refused = dial.state() == net::Dial::State::kRefused;
    const std::string how = refused ? net::verdict_text(dial.verdict()) : dial.status().message();
    return refuse(deadline_.passed() ? FailureKind::kTimeout : FailureKind::kPeerDead,
                  "the process that made the unique id, at " + at.value().to_text() + ", cannot be reached: " + how);
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
    const JoinRequest request{place_.secret, rank_, nranks_, bytes_, deadline_.left(), me_};
    JoinReply reply{};
    Fd segment;
    if (!tell(lobby.fd(), std::as_bytes(std::span(&request, 1)))) return give_up(Heard::kGone), false;
    if (const Heard heard = hear(lobby.fd(), reply, segment, patience(), cancelled_); heard != Heard::kAll) {
      return give_up(heard), false;
    }
    if (reply.ok == 0) {
      why_ = reply.failure;
      return false;
    }
    has_roster_ = reply.has_roster != 0;
    if (me_.host == place_.host && !segment) {
      refuse(FailureKind::kSystem, "the shared segment did not come with the reply (descriptor limit reached?)");
      return false;
    }
    lobby.set_segment(std::move(segment));
    return true;
  }

  bool tell_address(const Lobby& lobby) {
    if (!open_endpoint()) return false;
    if (tell(lobby.fd(), std::as_bytes(std::span(&me_, 1)))) return true;
    return give_up(Heard::kGone), false;
  }

  bool hear_roster(Lobby& lobby) {
    std::vector<Whereabouts> roster(static_cast<size_t>(nranks_));
    const auto into = std::as_writable_bytes(std::span(roster));
    if (const Heard heard = hear(lobby.fd(), into, patience(), cancelled_); heard != Heard::kAll) {
      return give_up(heard), false;
    }
    lobby.set_roster(std::move(roster));
    return true;
  }

  // The ranks of a host that is not the convener's get their segment from the first of them, as on a single host.
  bool meet_on_host(Lobby& lobby) {
    const Places places = places_of(lobby.roster(), nranks_, rank_);
    const std::vector<int>& here = places.ranks_here();
    const int head = here.front();
    if (head == rank_) {
      if (Status started = Convener::start(std::make_unique<Convener>(place_.secret, std::move(door_), nullptr));
          !started.is_ok()) {
        refuse(FailureKind::kSystem, started.message());
        return false;
      }
    }
    MeetingPlace there = place_;
    there.host = me_.host;
    std::memcpy(there.socket, lobby.roster()[static_cast<size_t>(head)].socket, sizeof(there.socket));
    const auto index = static_cast<int>(std::find(here.begin(), here.end(), rank_) - here.begin());
    Joining local(there, index, static_cast<int>(here.size()), bytes_, deadline_, cancelled_, why_);
    std::optional<Lobby> of_host = local.run();
    if (!of_host) return false;
    lobby.set_segment(of_host->take_segment());
    of_host->leave();
    return true;
  }

  const MeetingPlace place_;
  const int rank_;
  const int nranks_;
  const size_t bytes_;
  const Deadline deadline_;
  const std::atomic<bool>& cancelled_;
  Failure& why_;
  Whereabouts me_{};
  bool has_roster_ = false;
  LocalDoor door_;
  std::shared_ptr<net::Endpoint> endpoint_;
};

MeetingPlace place_of(const nccl_abi::UniqueId& id) {
  MeetingPlace place;
  std::memcpy(&place, id.internal, sizeof(place));
  return place;
}

}  // namespace

pycomms::Result<nccl_abi::UniqueId> create_unique_id() {
  MeetingPlace place{};
  std::memcpy(place.magic, kMeetingMagic, sizeof(kMeetingMagic));
  auto secret = net::random_bytes16();
  if (!secret.is_ok()) return secret.status();
  place.secret = secret.value();
  auto host = this_host();
  if (!host.is_ok()) return host.status();
  place.host = host.value();
  auto local = LocalDoor::open();
  if (!local.is_ok()) return local.status();
  std::memcpy(place.socket, local.value().name, sizeof(place.socket));
  std::unique_ptr<RemoteDoor> remote = RemoteDoor::open(place.secret);
  if (remote != nullptr) place.tcp = remote->address().encode();

  nccl_abi::UniqueId id{};
  std::memcpy(id.internal, &place, sizeof(place));
  PYCOMMS_RETURN_IF_ERROR(Convener::start(std::make_unique<Convener>(place.secret, local.take(), std::move(remote))));
  return id;
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
  return Joining(place, rank, nranks, bytes, deadline, cancelled, why).run();
}

void Lobby::leave() {
  static_cast<void>(tell(fd(), std::as_bytes(std::span(&kSettled, 1))));  // nobody there: nobody cares
  local_.reset();
  remote_.reset();
}

bool Lobby::all_well(Failure& why) const {
  JoinReply reply{};
  if (recv(fd(), &reply, sizeof(reply), MSG_DONTWAIT) != sizeof(reply) || reply.ok != 0) return true;
  why = reply.failure;
  return false;
}

}  // namespace hostccl
