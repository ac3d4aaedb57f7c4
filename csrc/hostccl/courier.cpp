#include "hostccl/courier.h"

#include <utility>

#include "base/futex.h"
#include "base/thread.h"
#include "hostccl/courier_state.h"

namespace hostccl {
namespace {

constexpr int64_t kBeatEvery = 250 * pycomms::kMillisecond;
constexpr int64_t kNap = 500 * pycomms::kMicrosecond;  // while somebody else looks
constexpr int64_t kGoodbye = 2 * pycomms::kSecond;

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
    if (places_.port_of(peer, places_.my_host()) == rank_) served_.push_back(peer);
  }
  for (int host = 0; host < places_.nhosts(); ++host) {
    if (host != places_.my_host()) ports_.push_back(places_.port_of(rank_, host));
  }
}

pycomms::Status Courier::start(std::unique_ptr<net::Mesh> connections) {
  mesh_ = std::move(connections);
  auto thread = pycomms::start_thread("pycomms-net", [this] { main(); });
  if (!thread.is_ok()) return thread.status();
  thread_ = thread.take();
  return {};
}

Courier::~Courier() {
  stop_.store(true, std::memory_order_release);
  if (mesh_ != nullptr) mesh_->ring();
  if (thread_.joinable()) thread_.join();
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
  std::atomic<uint32_t> never{0};
  uint64_t looks_seen = 0;
  int64_t beat_at = pycomms::now_ns();
  while (!stop_.load(std::memory_order_acquire)) {
    if (const uint64_t looks = looks_.load(std::memory_order_relaxed); looks != looks_seen) {
      looks_seen = looks;
      pycomms::futex_wait(never, 0, kNap);
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

void Courier::close(pycomms::Deadline deadline) {
  if (mesh_ == nullptr) return;
  for (const int peer : elsewhere_) published(peer);
  const auto held_up = [this] {
    bool any = false;
    for (const int peer : elsewhere_) any |= out_[static_cast<size_t>(peer)]->is_held_up.load();
    return any;
  };
  while (held_up() && !deadline.passed()) {
    mesh_->wait(pycomms::Deadline::after(std::min(kNap, deadline.left())));
    look();
  }
  stop_.store(true, std::memory_order_release);  // whose link ends from here on is no news
  mesh_->close("the communicator was closed", pycomms::Deadline::after(std::min(kGoodbye, deadline.left())));
}

}  // namespace hostccl
