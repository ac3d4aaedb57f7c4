#include "hostccl/courier.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "hostccl/courier_state.h"

namespace hostccl {
namespace {

constexpr int64_t kBeatEvery = 250 * pycomms::kMillisecond;
constexpr int64_t kNap = 500 * pycomms::kMicrosecond;  // while somebody else looks
constexpr int64_t kGoodbye = 2 * pycomms::kSecond;
constexpr const char* kClosedHere = "the communicator was closed";

}  // namespace

Courier::Courier(Segment& segment)
    : segment_(segment), places_(segment.places()), rank_(segment.rank()), why_gone_(segment.nranks()) {
  out_.resize(why_gone_.size());
  in_.resize(why_gone_.size());
  for (int peer = 0; peer < segment.nranks(); ++peer) {
    if (places_.is_here(peer)) continue;
    out_[static_cast<size_t>(peer)] = std::make_unique<Outgoing>();
    in_[static_cast<size_t>(peer)] = std::make_unique<Incoming>();
    elsewhere_.push_back(peer);
    if (is_port_of(peer)) served_.push_back(peer);
  }
  for (int host = 0; host < places_.nhosts(); ++host) {
    if (host != places_.my_host()) ports_.push_back(places_.port_of(rank_, host));
  }
}

pycomms::Status Courier::start(std::unique_ptr<net::Mesh> connections) {
  mesh_ = std::move(connections);
  auto thread = pycomms::start_thread("pycomms-courier", [this] { main(); });
  if (!thread.is_ok()) return thread.status();
  thread_ = thread.take();
  return {};
}

Courier::~Courier() {
  stop_.store(true, std::memory_order_release);
  if (mesh_ != nullptr) mesh_->ring();
  if (thread_.joinable()) thread_.join();
  is_leaving_.store(true, std::memory_order_release);
  mesh_.reset();  // the endpoint's thread calls in here until it is gone
}

bool Courier::progress() {
  looks_.fetch_add(1, std::memory_order_relaxed);
  return look();
}

bool Courier::look() {
  const bool moved = mesh_->progress();
  for (const int writer : served_) ship_tails(writer);
  for (const int peer : elsewhere_) {
    if (!out_[static_cast<size_t>(peer)]->is_held_up.load(std::memory_order_acquire)) continue;
    out_[static_cast<size_t>(peer)]->is_held_up.store(false, std::memory_order_release);
    published(peer);
  }
  if (segment_.has_failed()) failed();
  return moved;
}

// Whoever waits looks himself, and more often than a thread that has to be woken can.
void Courier::main() {
  uint64_t looks_seen = 0;
  int64_t beat_at = pycomms::now_ns();
  while (!stop_.load(std::memory_order_acquire)) {
    if (const uint64_t looks = looks_.load(std::memory_order_relaxed); looks != looks_seen) {
      looks_seen = looks;
      pycomms::sleep_for(kNap);
    } else {
      mesh_->wait(pycomms::Deadline::after(kBeatEvery));
      look();
    }
    if (const int64_t now = pycomms::now_ns(); now >= beat_at) {
      beat_at = now + kBeatEvery;
      beat();
    }
  }
}

// A host that has gone does not acknowledge, and the kernel ends the connection; one whose processes are stopped does.
void Courier::beat() {
  for (const int peer : elsewhere_) {
    net::Link* const link = mesh_->find_link(peer);
    if (link != nullptr && link->is_connected()) static_cast<void>(link->beat());  // its end is told by the sink
  }
}

// --- leaving

template <typename Done>
void Courier::look_until(pycomms::Deadline deadline, Done done) {
  while (!done() && !deadline.passed()) {
    mesh_->wait(pycomms::Deadline::after(std::min(kNap, deadline.left())));
    look();
  }
}

// By this very call: another thread that tries to may not have been told yet that it cannot.
bool Courier::has_sent_all() {
  for (const int peer : elsewhere_) published(peer);
  return std::none_of(elsewhere_.begin(), elsewhere_.end(), [this](int peer) {
    return out_[static_cast<size_t>(peer)]->is_held_up.load(std::memory_order_acquire);
  });
}

// What comes through this rank for others here too. Of a message that only they read it has passed over the end already.
bool Courier::has_all_for_neighbours() const {
  return std::all_of(served_.begin(), served_.end(), [this](int writer) {
    const net::Link* const link = mesh_->find_link(writer);
    const uint64_t needed = segment_.layout().shared_tail(segment_.base(), writer, rank_).value.load();
    const uint64_t came = segment_.layout().shared_head(segment_.base(), writer).value.load();
    return came >= needed || (link != nullptr && link->has_ended());
  });
}

// That this rank has closed its communicator is told to one rank of a host. Those that it has sent something of their own
// have taken it by then: they say so by ending the connection behind our goodbye.
void Courier::take_leave_of_pairs(pycomms::Deadline deadline) {
  std::vector<net::Link*> links;
  for (const int peer : elsewhere_) {
    net::Link* const link = mesh_->find_link(peer);
    if (link != nullptr && herald_on(places_.host_of(peer)) != peer) links.push_back(link);
  }
  for (net::Link* const link : links) link->start_close(kClosedHere);
  look_until(deadline, [&] {
    return std::all_of(links.begin(), links.end(), [](const net::Link* link) { return link->has_ended(); });
  });
}

void Courier::close(pycomms::Deadline deadline) {
  if (mesh_ == nullptr) return;
  const auto goodbye = [deadline] { return pycomms::Deadline::after(std::min(kGoodbye, deadline.left())); };
  // After a failure nobody needs data any more, and a peer that takes none cannot hold us up.
  look_until(deadline, [this] { return (has_sent_all() && has_all_for_neighbours()) || segment_.has_failed(); });
  if (!segment_.has_failed()) take_leave_of_pairs(goodbye());
  may_say_closed_.store(true, std::memory_order_release);
  look_until(deadline, [this] { return has_sent_all() || segment_.has_failed(); });
  is_leaving_.store(true, std::memory_order_release);
  stop_.store(true, std::memory_order_release);
  mesh_->close(kClosedHere, goodbye());
}

}  // namespace hostccl
