// How a window is made: every rank tells where its memory is, maps that of the others, and hears whether all could.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "hostccl/report.h"
#include "hostccl/shared_buffers.h"
#include "hostccl/windows/window.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Status;

constexpr char kDoing[] = "making a window";

// What each rank tells first.
struct Offer {
  uint32_t number;
  int32_t slots;
  uint64_t bytes;
  SharedLocation block;
  SharedLocation data;  // fd -1: private memory
  char trouble[80];     // why this rank cannot take part; empty: it can
};

// And second.
struct Verdict {
  uint8_t reaches_all;  // by loads and stores
};

}  // namespace

pycomms::Result<std::unique_ptr<Window>> Window::make(std::shared_ptr<WindowSite> site, void* data, size_t bytes,
                                                      const WindowOptions& options, int64_t timeout_ns,
                                                      std::vector<int>* about) {
  const uint32_t number = site->next_number();
  std::unique_ptr<Window> window(new Window(std::move(site), number));
  PYCOMMS_RETURN_IF_ERROR(window->set_up(data, bytes, options, timeout_ns, about));
  return window;
}

Status Window::set_up(void* data, size_t bytes, const WindowOptions& options, int64_t timeout_ns,
                      std::vector<int>* about) {
  const auto deadline = pycomms::Deadline::after(timeout_ns);
  holds_alone_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(nranks()));
  Offer offer{.number = number_, .slots = options.slots, .bytes = bytes, .block = {}, .data = {}, .trouble = {}};
  if (!locate(options.fd, options.offset, bytes, offer.data)) offer.data = find_shared(data, bytes);
  const Status made = make_block(data, bytes, offer.data, options);
  if (made.is_ok()) {
    locate(block_fd_.get(), 0, mine_->layout.bytes(), offer.block);
  } else {
    made.message().copy(offer.trouble, sizeof(offer.trouble) - 1);
  }
  // Whoever cannot take part says so, or all others would wait for it.
  std::vector<Report> reports;
  PYCOMMS_RETURN_IF_ERROR(site_->tell_all(to_report(offer), deadline.left(), &reports, about, kDoing));
  if (!made.is_ok()) return made;
  PYCOMMS_RETURN_IF_ERROR(map_peers(reports, about));
  const bool reaches_all = std::none_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.is_served; });
  site_->add(number_, mine_);  // who has heard from all may ask for something at once
  std::vector<Report> verdicts;
  PYCOMMS_RETURN_IF_ERROR(site_->tell_all(to_report(Verdict{reaches_all}), deadline.left(), &verdicts, about, kDoing));
  block_fd_.reset();
  site_->take_number(number_);
  const bool all_do = std::all_of(verdicts.begin(), verdicts.end(),
                                  [](const Report& r) { return from_report<Verdict>(r).reaches_all != 0; });
  if (!all_do) PYCOMMS_RETURN_IF_ERROR(site_->connect(deadline.left(), about));
  is_made_ = true;
  return Status::ok();
}

Status Window::make_block(void* data, size_t bytes, const SharedLocation& where, const WindowOptions& options) {
  if (options.slots < 1 || options.slots > kMaxSlots) {
    return {Code::kInvalidArgument,
            "slots is " + std::to_string(options.slots) + ", expected 1 to " + std::to_string(kMaxSlots)};
  }
  auto mine = std::make_shared<WindowMemory>();
  // Mapped once more where it can be: the caller may give its memory back too early, as torch's share_memory_() does.
  if (where.fd >= 0 && bytes > 0) mine->data_hold = map_location(getpid(), where, bytes);
  mine->data = mine->data_hold ? mine->data_hold->data() + where.offset : static_cast<std::byte*>(data);
  mine->bytes = bytes;
  mine->layout = WindowLayout(nranks(), options.slots);
  auto fd = pycomms::create_shared_memory("pycomms-window", mine->layout.bytes());
  if (!fd.is_ok()) return fd.status();
  auto mapping = pycomms::SharedMapping::map(fd.value());
  if (!mapping.is_ok()) return mapping.status();
  mine->block_hold = mapping.take();
  mine->block = mine->block_hold->data();
  block_fd_ = fd.take();
  mine_ = std::move(mine);
  return Status::ok();
}

Status Window::map_peers(const std::vector<Report>& reports, std::vector<int>* about) {
  for (int rank = 0; rank < nranks(); ++rank) {
    *about = {rank};
    const Offer offer = from_report<Offer>(reports[static_cast<size_t>(rank)]);
    const std::string who = "rank " + std::to_string(rank);
    if (offer.trouble[0] != '\0') {
      return {Code::kSystem, who + " cannot make its window: " +
                                 std::string(offer.trouble, strnlen(offer.trouble, sizeof(offer.trouble)))};
    }
    // Some may count more: they have made a window that others gave up waiting for.
    number_ = std::max(number_, offer.number);
    if (offer.slots != mine_->layout.slots()) {
      return {Code::kMismatch, who + " has given " + std::to_string(offer.slots) + " slots, rank " +
                                   std::to_string(this->rank()) + " " + std::to_string(mine_->layout.slots())};
    }
    Peer peer;
    peer.memory.bytes = offer.bytes;
    peer.memory.layout = mine_->layout;
    if (rank == this->rank()) {
      peer.memory = *mine_;
    } else {
      peer.is_served = !map_peer(rank, offer.block, offer.data, &peer.memory);
    }
    peers_.push_back(std::move(peer));
  }
  return Status::ok();
}

bool Window::map_peer(int rank, const SharedLocation& block, const SharedLocation& data, WindowMemory* memory) const {
  if (!site_->segment().is_here(rank)) return false;
  const int pid = site_->segment().block(rank).pid.load(std::memory_order_relaxed);
  if (memory->bytes > 0) {
    if (data.fd < 0) return false;
    memory->data_hold = map_location(pid, data, memory->bytes);
    if (!memory->data_hold) return false;
    memory->data = memory->data_hold->data() + data.offset;
  }
  memory->block_hold = map_location(pid, block, memory->layout.bytes());
  if (!memory->block_hold) return false;
  memory->block = memory->block_hold->data();
  return true;
}

}  // namespace hostccl
