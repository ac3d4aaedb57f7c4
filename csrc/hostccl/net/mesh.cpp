#include "hostccl/net/mesh.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

namespace hostccl::net {
namespace {

using pycomms::Deadline;
using pycomms::Fd;
using pycomms::Status;

// Names of events: a rank's connection, a rank's dial, the bell.
constexpr uint64_t kDialEvent = uint64_t{1} << 32;
constexpr uint64_t kMeshBell = uint64_t{1} << 33;
// With more links than these it is cheaper to ask which of them have something.
constexpr size_t kFewLinks = 3;
constexpr int64_t kLookAtDials = 5 * pycomms::kMillisecond;
constexpr int64_t kLookAtEnds = 5 * pycomms::kMillisecond;

}  // namespace

pycomms::Result<std::unique_ptr<Mesh>> Mesh::make(std::shared_ptr<Endpoint> endpoint, MeshOptions options, Sink& sink) {
  if (options.rank < 0 || static_cast<size_t>(options.rank) >= options.addresses.size()) {
    return Status(pycomms::Code::kInvalidArgument, "rank " + std::to_string(options.rank) + " of a mesh of " +
                                                       std::to_string(options.addresses.size()) + " ranks");
  }
  Descriptor epoll(Fd(epoll_create1(EPOLL_CLOEXEC)));
  Descriptor bell(Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kMeshBell;
  if (!epoll || !bell || epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.get(), &event) != 0) {
    return Status::system("opening the descriptors of a communicator's connections");
  }
  std::unique_ptr<Mesh> mesh(
      new Mesh(std::move(endpoint), std::move(options), sink, std::move(epoll), std::move(bell)));
  auto registration = mesh->endpoint_->serve({mesh->options_.topic, mesh->options_.key, mesh->rank(),
                                              [raw = mesh.get()](Arrival a) { raw->on_arrival(std::move(a)); }});
  if (!registration.is_ok()) return registration.status();
  mesh->registration_ = registration.take();
  return mesh;
}

Mesh::Mesh(std::shared_ptr<Endpoint> endpoint, MeshOptions options, Sink& sink, Descriptor epoll, Descriptor bell)
    : endpoint_(std::move(endpoint)),
      options_(std::move(options)),
      sink_(sink),
      epoll_(std::move(epoll)),
      bell_(std::move(bell)),
      links_(options_.addresses.size()),
      active_(options_.addresses.size()),
      peers_(options_.addresses.size()),
      in_child_(-1, sink) {}

Mesh::~Mesh() { registration_.reset(); }

Link* Mesh::find_link(int rank) const { return links_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }

Link& Mesh::link_to(int rank) {
  if (Link* link = find_link(rank)) return *link;
  if (is_foreign()) return in_child_;  // the lock may be held by a thread that is not here
  std::vector<Step> steps;
  Link* link;
  {
    std::lock_guard lock(mutex_);
    if ((link = find_link(rank)) != nullptr) return *link;
    link = &make_link(rank);
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (is_closing_) {
      set_state(peer, PeerState::kLinked);
      steps.push_back({link, {}, {}, unreachable(rank, "this communicator is being closed")});
    } else {
      const Introduction who{options_.topic, options_.key, options_.rank, rank};
      peer.dial =
          std::make_unique<Dial>(who, options_.addresses[static_cast<size_t>(rank)], endpoint_->address().scope(),
                                 endpoint_->socket_options(), Deadline::after(options_.connect_ns));
      set_state(peer, PeerState::kDialling);
      advance_dial(rank, pycomms::now_ns(), steps);
    }
  }
  take(steps);
  return *link;
}

Link& Mesh::make_link(int rank) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  peer.link = std::make_unique<Link>(rank, sink_);
  const size_t count = active_count_.load(std::memory_order_relaxed);
  active_[count].store(rank, std::memory_order_relaxed);
  active_count_.store(count + 1, std::memory_order_release);
  links_[static_cast<size_t>(rank)].store(peer.link.get(), std::memory_order_release);
  return *peer.link;
}

void Mesh::set_state(Peer& peer, PeerState to) {
  auto is_pending = [](PeerState state) { return state == PeerState::kDialling || state == PeerState::kAwaited; };
  pending_.fetch_add(is_pending(to) - is_pending(peer.state), std::memory_order_release);
  peer.state = to;
}

Verdict Mesh::verdict_on(const Arrival& arrival) const {
  const int rank = arrival.rank();
  if (rank < 0 || rank >= nranks() || rank == options_.rank) return Verdict::kWrongRank;
  if (is_closing_) return Verdict::kClosed;
  switch (peers_[static_cast<size_t>(rank)].state) {
    case PeerState::kUnused:
    case PeerState::kAwaited:
      return Verdict::kAccepted;
    case PeerState::kDialling:
      return rank < options_.rank ? Verdict::kAccepted : Verdict::kCrossed;
    case PeerState::kLinked:
      return Verdict::kNotWanted;
  }
  return Verdict::kNotWanted;
}

// On the endpoint's thread.
void Mesh::on_arrival(Arrival arrival) {
  std::vector<Step> steps;
  {
    std::lock_guard lock(mutex_);
    const Verdict verdict = verdict_on(arrival);
    if (verdict != Verdict::kAccepted) return arrival.refuse(verdict);
    // Answered under the lock: what the peer is told and what we hold must be the same.
    auto socket = arrival.accept();
    if (!socket.is_ok()) return;  // it has gone again, and may come back
    Peer& peer = peers_[static_cast<size_t>(arrival.rank())];
    if (peer.link == nullptr) make_link(arrival.rank());
    peer.dial.reset();
    set_state(peer, PeerState::kLinked);
    steps.push_back({peer.link.get(), socket.take(), arrival.from(), {}});
  }
  take(steps);
}

bool Mesh::advance_dials() {
  std::vector<Step> steps;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const int64_t now = pycomms::now_ns();
    const size_t count = active_count_.load(std::memory_order_relaxed);
    for (size_t i = 0; i < count; ++i) advance_dial(active_[i].load(std::memory_order_relaxed), now, steps);
  }
  take(steps);
  return !steps.empty();
}

void Mesh::advance_dial(int rank, int64_t now, std::vector<Step>& steps) {
  Peer& peer = peers_[static_cast<size_t>(rank)];
  if (peer.state == PeerState::kAwaited && now >= peer.awaited_until_ns) {
    set_state(peer, PeerState::kLinked);
    steps.push_back({peer.link.get(), {}, {}, unreachable(rank, "it was going to connect to us, and did not")});
  }
  if (peer.state != PeerState::kDialling) return;
  const int before = peer.dial->fd();
  const bool wanted_to_write = peer.dial->wants_to_write();
  peer.dial->advance(now);
  if (!peer.dial->is_over()) {
    if (peer.dial->fd() != before || peer.dial->wants_to_write() != wanted_to_write) watch_dial(rank, *peer.dial);
    return;
  }
  const std::unique_ptr<Dial> dial = std::move(peer.dial);
  if (dial->state() == Dial::State::kRefused && dial->verdict() == Verdict::kCrossed) {
    peer.awaited_until_ns = now + options_.connect_ns;
    return set_state(peer, PeerState::kAwaited);
  }
  set_state(peer, PeerState::kLinked);
  if (dial->state() == Dial::State::kConnected) {
    Descriptor socket = dial->take();
    static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr));
    steps.push_back({peer.link.get(), std::move(socket), options_.addresses[static_cast<size_t>(rank)], {}});
  } else {
    LinkEnd end = unreachable(rank, dial->status().message());
    const bool has_left = dial->state() == Dial::State::kRefused && dial->verdict() == Verdict::kClosed;
    if (has_left) end.kind = EndKind::kOrderly;
    steps.push_back({peer.link.get(), {}, {}, std::move(end)});
  }
}

void Mesh::watch_dial(int rank, const Dial& dial) {
  if (dial.fd() < 0) return;  // pausing
  epoll_event event{};
  event.events = dial.wants_to_write() ? EPOLLOUT : EPOLLIN;
  event.data.u64 = kDialEvent | static_cast<uint64_t>(rank);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, dial.fd(), &event) == 0) return;
  static_cast<void>(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, dial.fd(), &event));
}

LinkEnd Mesh::unreachable(int rank, const std::string& why) const {
  return {EndKind::kUnreachable, "there is no connection with rank " + std::to_string(rank) + ": " + why};
}

void Mesh::take(std::vector<Step>& steps) {
  for (Step& step : steps) {
    if (step.socket) {
      const Watcher watcher{epoll_.get(), static_cast<uint64_t>(step.link->peer())};
      step.link->attach(std::move(step.socket), step.at, watcher);
    } else {
      step.link->abort(step.end);
    }
  }
}

bool Mesh::progress() {
  if (is_foreign()) return false;
  bool moved = false;
  if (pending_.load(std::memory_order_acquire) > 0) moved = advance_dials();
  const size_t count = active_count_.load(std::memory_order_acquire);
  if (count > kFewLinks) return progress_ready() || moved;
  for (size_t i = 0; i < count; ++i) {
    Link* const link = find_link(active_[i].load(std::memory_order_relaxed));
    if (link != nullptr) moved |= link->progress();
  }
  return moved;
}

bool Mesh::progress_ready() {
  std::array<epoll_event, 32> events;
  bool moved = false;
  for (size_t i = 0; i < active_count_.load(std::memory_order_acquire); ++i) {
    Link* const link = find_link(active_[i].load(std::memory_order_relaxed));
    if (link != nullptr && link->has_unpushed()) moved |= link->progress();
  }
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name < kDialEvent) moved |= find_link(static_cast<int>(name))->progress();
  }
  return moved;
}

// Dials are not always on the epoll instance: between two tries they have no descriptor.
int64_t Mesh::wake_at_ns() const {
  return pending_.load(std::memory_order_acquire) > 0 ? pycomms::now_ns() + kLookAtDials : pycomms::kForever;
}

void Mesh::wait(Deadline deadline) {
  if (is_foreign()) return;
  sleepers_.fetch_add(1, std::memory_order_acq_rel);
  const int64_t now = pycomms::now_ns();
  const int64_t left = std::min(deadline.left(now), Deadline::at(wake_at_ns()).left(now));
  epoll_event event;
  const int count = epoll_wait(epoll_.get(), &event, 1, pycomms::poll_ms(left));
  const int others = sleepers_.fetch_sub(1, std::memory_order_acq_rel) - 1;
  if (count <= 0 || event.data.u64 != kMeshBell) return;
  eventfd_t rung;
  static_cast<void>(eventfd_read(bell_.get(), &rung));
  if (others > 0) ring();  // the bell is for all, and epoll wakes one
}

void Mesh::ring() const { static_cast<void>(eventfd_write(bell_.get(), 1)); }

void Mesh::close(const std::string& reason, Deadline deadline) {
  if (is_foreign()) return;
  {
    std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  registration_.reset();
  const size_t count = active_count_.load(std::memory_order_acquire);
  auto link = [&](size_t i) { return find_link(active_[i].load(std::memory_order_relaxed)); };
  for (size_t i = 0; i < count; ++i) link(i)->start_close(reason);
  auto all_ended = [&] {
    for (size_t i = 0; i < count; ++i) {
      if (!link(i)->has_ended()) return false;
    }
    return true;
  };
  while (!all_ended() && !deadline.passed()) {
    // Not for long: the end of a link that another thread has moved on wakes nobody.
    if (!progress()) wait(Deadline::after(std::min(kLookAtEnds, deadline.left())));
  }
  abort(reason);
}

void Mesh::abort(const std::string& reason) {
  if (is_foreign()) return;
  std::vector<Link*> links;
  {
    std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (Peer& peer : peers_) {
      if (peer.state != PeerState::kUnused) set_state(peer, PeerState::kLinked);
      peer.dial.reset();
      if (peer.link != nullptr) links.push_back(peer.link.get());
    }
  }
  for (Link* link : links) {
    link->abort({EndKind::kLocal, "the connection with " + link->name() + " was closed here: " + reason});
  }
  ring();
}

}  // namespace hostccl::net
