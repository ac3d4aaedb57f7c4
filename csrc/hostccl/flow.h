// The pieces that large collectives are made of. A flow moves one message through rings, a chunk at a step, and never
// waits; run_flows turns several into one pipeline: while one waits for a peer, the others move on.
//
// Threads: one at a time. Must not know: which collective it serves.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hostccl/ring.h"
#include "hostccl/segment.h"
#include "hostccl/wait.h"

namespace hostccl {

// How chunks are cut and written.
struct FlowStyle {
  size_t chunk;
  bool streaming;              // write rings with non-temporal stores
  bool streaming_out = false;  // and private memory too: it is too large to be read from the cache afterwards
};

class Flow {
 public:
  explicit Flow(FlowStyle style) : style_(style) {}
  virtual ~Flow() = default;
  bool done() const { return left() == 0; }
  virtual size_t left() const = 0;  // bytes
  // Moves one chunk if the rings allow it.
  virtual bool step() = 0;

 protected:
  void write_private(std::byte* to, const std::byte* from, size_t bytes) const;

  const FlowStyle style_;
};

// Private memory -> ring. To a rank on another host it goes from where it lies, and is done when the kernel has it.
class SendFlow final : public Flow {
 public:
  SendFlow(const Segment& segment, RingWriter& ring, std::span<const int> readers, const std::byte* from, size_t bytes,
           FlowStyle style)
      : Flow(style), segment_(segment), ring_(ring), readers_(readers), from_(from), left_(bytes) {}
  // What is still needed of the memory.
  size_t left() const override { return left_ + under_way(); }
  bool step() override;
  // For a ring with one reader, who is on another host.
  void hand_over() { remote_ = segment_.remote(); }
  // Copies the data to private memory as well, while it is in the cache.
  void keep_copy(std::byte* to) { copy_ = to; }
  // Stays at most `bytes` ahead of `reader`, which reads the same memory: what was read once is then still in the cache.
  void lead(const Flow& reader, size_t bytes) {
    reader_ = &reader;
    most_ahead_ = bytes;
  }
  // Sends what `maker` has made in the same memory, whose end is `beyond` bytes behind this flow's.
  void follow(const Flow& maker, size_t beyond = 0) {
    maker_ = &maker;
    beyond_ = beyond;
  }
  // Begins when `before`, which writes the same ring, has ended.
  void after(const Flow& before) { before_ = &before; }

 private:
  size_t under_way() const;
  bool may_step(size_t bytes) const;
  bool put(size_t bytes);

  const Segment& segment_;
  RingWriter& ring_;
  std::span<const int> readers_;
  const std::byte* from_;
  size_t left_;
  std::byte* copy_ = nullptr;
  const Flow* reader_ = nullptr;
  size_t most_ahead_ = 0;
  const Flow* maker_ = nullptr;
  size_t beyond_ = 0;
  const Flow* before_ = nullptr;
  Remote* remote_ = nullptr;  // where it goes from where it lies
  uint64_t end_ = 0;          // of what was handed over, in positions of the ring
};

// Ring -> private memory.
class RecvFlow final : public Flow {
 public:
  RecvFlow(const Segment& segment, RingReader& ring, int writer, std::byte* to, size_t bytes, FlowStyle style)
      : Flow(style), segment_(segment), ring_(ring), writer_(writer), to_(to), left_(bytes) {}
  size_t left() const override { return left_; }
  bool step() override;
  // Begins when `before`, which reads the same ring, has ended.
  void after(const Flow& before) { before_ = &before; }

 private:
  const Segment& segment_;
  RingReader& ring_;
  const int writer_;
  std::byte* to_;
  size_t left_;
  const Flow* before_ = nullptr;
};

// One ring per peer plus this rank's own part -> private memory, in rank order, and on into a ring of results.
class ReduceFlow final : public Flow {
 public:
  struct Input {
    RingReader* ring;  // nullptr: `own`
    int rank;
  };
  struct Output {
    RingWriter* ring;  // nullptr: only private memory
    std::span<const int> readers;
  };
  // inputs: one for each rank, in rank order. bytes: a multiple of the element size. to may be null if results has a ring.
  ReduceFlow(const Segment& segment, std::span<const Input> inputs, const std::byte* own, std::byte* to, size_t bytes,
             Output results, ReduceArgs what, FlowStyle style);
  size_t left() const override { return left_; }
  bool step() override;
  // Stays behind `other`, which reads the memory that this flow may overwrite, or makes what it takes as its own; the end of
  // the other is `beyond` bytes behind this flow's.
  void follow(const Flow& other, size_t beyond = 0) {
    other_ = &other;
    beyond_ = beyond;
  }

 private:
  size_t piece() const;
  bool can_step(size_t bytes);
  void finish_piece(size_t bytes);

  const Segment& segment_;
  const std::span<const Input> inputs_;
  const std::byte* own_;
  std::byte* to_;
  size_t left_;
  const Output results_;
  ReduceArgs what_;  // count, inputs and outputs are filled for each piece
  const size_t element_size_;
  const Flow* other_ = nullptr;
  size_t beyond_ = 0;
  std::vector<const void*> pointers_;
};

// Steps all until all are done. False when the communicator failed meanwhile.
bool run_flows(const Segment& segment, Waiter& waiter, std::span<Flow* const> flows);

}  // namespace hostccl
