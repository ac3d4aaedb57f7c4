#include "hostccl/net/outbox.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

namespace hostccl::net {
namespace {

constexpr size_t kPiecesOfFrame = 3;  // header, head, body

}  // namespace

// The frames of one system call.
struct Outbox::Batch {
  struct Frame {
    size_t lane;
    size_t left;      // of header and payload together
    uint64_t offset;  // of the payload after this frame
  };
  std::array<FrameHeader, kFrames> headers;
  std::array<Frame, kFrames> frames;
  std::array<iovec, kFrames * kPiecesOfFrame> pieces;
  size_t frame_count = 0;
  size_t piece_count = 0;
  size_t bytes = 0;

  bool is_full(size_t burst) const { return frame_count == kFrames || bytes >= burst; }

  // Takes what is beyond `limit` off the end.
  void cut(size_t limit) {
    size_t over = bytes > limit ? bytes - limit : 0;
    bytes -= over;
    while (over > 0) {
      iovec& last = pieces[piece_count - 1];
      const size_t part = std::min(over, last.iov_len);
      last.iov_len -= part;
      over -= part;
      if (last.iov_len == 0) --piece_count;
    }
  }

  // The frame of `parcel` that begins at `offset`, without its first `skip` bytes. Returns the offset after it.
  uint64_t add(size_t lane, const Parcel& parcel, uint64_t offset, size_t skip) {
    FrameHeader& header = headers[frame_count];
    header = make_frame(static_cast<Lane>(lane), parcel.message, offset);
    const size_t size = sizeof(header) + header.length;
    if (skip < sizeof(header)) {
      pieces[piece_count++] = {reinterpret_cast<std::byte*>(&header) + skip, sizeof(header) - skip};
    }
    const size_t payload_skip = skip > sizeof(header) ? skip - sizeof(header) : 0;
    piece_count += parcel.slice(offset + payload_skip, header.length - payload_skip, &pieces[piece_count]);
    const uint64_t after = offset + header.length;
    frames[frame_count++] = {lane, size - skip, after};
    bytes += size - skip;
    return after;
  }
};

bool Outbox::add(Lane lane, const Message& message, const Payload& payload, Completion done) {
  ParcelQueue& queue = lanes_[static_cast<size_t>(lane)];
  if (queue.size() >= kParcels) return false;
  Parcel& parcel = queue.push();
  parcel.message = message;
  parcel.done = done;
  parcel.offset = 0;
  parcel.set_payload(payload);
  return true;
}

bool Outbox::is_empty() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const ParcelQueue& queue) { return queue.size() == 0; });
}

// A frame that has begun goes on; then the most urgent first.
void Outbox::plan(Batch& batch) {
  std::array<size_t, kLanes> index{};
  std::array<uint64_t, kLanes> offset;
  for (size_t lane = 0; lane < kLanes; ++lane) offset[lane] = lanes_[lane].size() > 0 ? lanes_[lane].at(0).offset : 0;

  auto add = [&](size_t lane, size_t skip) {
    Parcel& parcel = lanes_[lane].at(index[lane]);
    offset[lane] = batch.add(lane, parcel, offset[lane], skip);
    if (offset[lane] < parcel.message.bytes) return;
    offset[lane] = 0;
    ++index[lane];
  };
  if (partial_ > 0) add(partial_lane_, partial_);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    while (!batch.is_full(burst_) && index[lane] < lanes_[lane].size()) add(lane, 0);
  }
}

Outbox::Outcome Outbox::flush(const Descriptor& socket, Finished& finished) {
  Batch batch;
  plan(batch);
  if (batch.frame_count == 0) return Outcome::kEmpty;
  batch.cut(burst_);
  msghdr message{};
  message.msg_iov = batch.pieces.data();
  message.msg_iovlen = batch.piece_count;
  const ssize_t sent = sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    if (errno == EINTR) return Outcome::kMore;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::kBlocked : Outcome::kBroken;
  }
  finished.bytes = static_cast<size_t>(sent);
  account(batch, finished.bytes, finished);
  if (static_cast<size_t>(sent) < batch.bytes) return Outcome::kBlocked;
  return is_empty() ? Outcome::kEmpty : Outcome::kMore;
}

void Outbox::account(const Batch& batch, size_t sent, Finished& finished) {
  for (size_t i = 0; i < batch.frame_count && sent > 0; ++i) {
    const Batch::Frame& frame = batch.frames[i];
    if (sent < frame.left) {
      const FrameHeader& header = batch.headers[i];
      partial_ = sizeof(header) + header.length - frame.left + sent;
      partial_lane_ = frame.lane;
      return;
    }
    sent -= frame.left;
    partial_ = 0;
    ParcelQueue& queue = lanes_[frame.lane];
    Parcel& parcel = queue.at(0);
    parcel.offset = frame.offset;
    if (parcel.offset < parcel.message.bytes) continue;
    if (parcel.done.call != nullptr) finished.calls[finished.count++] = parcel.done;
    queue.pop();
  }
}

void Outbox::keep_newest(Lane lane) {
  ParcelQueue& queue = lanes_[static_cast<size_t>(lane)];
  if (queue.size() == 0) return;
  Parcel& newest = queue.at(queue.size() - 1);
  if (newest.done.call == nullptr) newest.own_body();
}

void Outbox::keep_all() {
  for (ParcelQueue& queue : lanes_) {
    for (size_t i = 0; i < queue.size(); ++i) queue.at(i).own_body();
  }
}

std::vector<Completion> Outbox::give_up() {
  std::vector<Completion> told;
  for (ParcelQueue& queue : lanes_) {
    for (; queue.size() > 0; queue.pop()) {
      if (queue.at(0).done.call != nullptr) told.push_back(queue.at(0).done);
    }
  }
  partial_ = 0;
  return told;
}

}  // namespace hostccl::net
