// What an operation does on its stream behind its engine calls: work of its owner's, and perhaps more engine calls behind
// that. A nonblocking engine may not have put anything on the stream when its call returns, and in a coalesced block nothing
// is there before the block's end, so this is played only when the calls so far are complete on the stream.
// Of the issuing thread. Must not know: torch, streams of the device, what is computed.
#pragma once

#include "nccl2/driver/nccl_api.h"

namespace pycomms {

class Sequel {
 public:
  virtual ~Sequel() = default;

  // Puts work of its own on the stream.
  virtual Status compute() = 0;
  // Whether engine calls follow behind that work, and then compute() again: as often on every rank.
  virtual bool has_move() const { return false; }
  virtual EngineResult move(const Engine&, CommHandle, StreamHandle) { return nccl_abi::kSuccess; }
};

}  // namespace pycomms
