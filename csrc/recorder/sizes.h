// Writes shapes and splits in the form that Slot::sizes has. What does not fit is left out, and said.
// Must not know: tensors.
#pragma once

#include "recorder/format.h"

namespace pycomms::recorder {

class Sizes {
 public:
  // One list: begin(count), then tensor() or number() as often.
  void begin(size_t count) { number(count); }
  template <typename Shape>
  void tensor(uint8_t dtype, const Shape& shape) {
    number(dtype);
    number(shape.size());
    for (const auto size : shape) number(static_cast<uint64_t>(size));
  }
  void number(uint64_t value) {
    if (was_cut_ || used_ + kMost > kSizesBytes) {
      was_cut_ = true;
      return;
    }
    for (; value >= 0x80; value >>= 7) bytes_[used_++] = static_cast<uint8_t>(value | 0x80);
    bytes_[used_++] = static_cast<uint8_t>(value);
  }

  bool was_cut() const { return was_cut_; }
  size_t used() const { return used_; }
  const uint8_t* data() const { return bytes_; }

 private:
  static constexpr size_t kMost = 10;  // bytes of the largest number

  uint8_t bytes_[kSizesBytes];
  size_t used_ = 0;
  bool was_cut_ = false;
};

}  // namespace pycomms::recorder
