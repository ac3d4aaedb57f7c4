// One call of an origin as it goes over a connection: the requests that it is made of, and the answers that it waits for.
// One thread. Pure bookkeeping. Must not know: connections.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "hostccl/windows/wire.h"

namespace hostccl {

// Pieces are as many as the caller has; a request carries some of them.
class WindowRequests {
 public:
  // head: what all have in common; its signal goes with the last. payload: for a byte of a piece `factor` bytes, one after the other.
  // first: the number of the first of them.
  WindowRequests(const WindowRequest& head, std::span<const WindowPiece> pieces, const std::byte* payload,
                 uint64_t factor, uint64_t first);

  bool is_done() const { return left_ == 0; }
  bool is_amid_request() const { return offset_ > 0; }
  uint64_t last_number() const { return last_; }
  // The one that is being sent, or is next.
  uint64_t number() const { return request_.number; }

  // What to send next, at most `most` bytes of it.
  using Parts = std::array<iovec, 3>;
  std::span<const iovec> next(Parts& parts, size_t most) const;
  void sent(size_t bytes);

 private:
  void prepare();
  uint64_t request_bytes() const { return sizeof(request_) + taken_.size_bytes() + request_.bytes; }

  const WindowRequest head_;
  const uint64_t factor_;
  const uint64_t last_;
  std::span<const WindowPiece> pieces_;  // of the requests after this one
  std::span<const WindowPiece> taken_;   // of this one
  const std::byte* payload_;             // of this one
  size_t left_;                          // requests
  WindowRequest request_{};
  uint64_t offset_ = 0;  // how much of this one is sent
};

// How many requests that makes.
size_t requests_for(size_t pieces);

class WindowAnswers {
 public:
  // Of requests that nobody waits for.
  WindowAnswers() = default;
  // destination: takes what is at the pieces, one after the other; null: the answers carry no data.
  WindowAnswers(uint64_t first, uint64_t last, std::span<const WindowPiece> pieces, std::byte* destination);

  bool is_done() const { return next_ > last_; }
  bool awaits(uint64_t number) const { return !is_done() && number == next_; }
  // Of the answer that is awaited now: where its data goes, and how much is missing.
  std::byte* destination() const { return destination_; }
  uint64_t missing() const { return missing_; }

  void take(uint64_t bytes);
  void finish(pycomms::Status status);
  // The first error.
  const pycomms::Status& status() const { return status_; }

 private:
  void prepare();

  uint64_t next_ = 1;
  uint64_t last_ = 0;
  std::span<const WindowPiece> pieces_;
  std::byte* destination_ = nullptr;
  uint64_t missing_ = 0;
  pycomms::Status status_;
};

}  // namespace hostccl
