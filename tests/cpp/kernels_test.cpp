// hostccl's reduction and copy kernels against kernels_reference.h: every type, reduction, number of inputs, vector width,
// alignment and aliasing, to the bit.
#include "hostccl/kernels/kernels.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "check.h"
#include "kernels_reference.h"
#include "kernels_types.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

using hostccl::Reduction;
using kernels_test::kTypes;
using kernels_test::widths;
using nccl_abi::DataType;
using reference::Bytes;

constexpr Reduction kReductions[] = {Reduction::kSum,   Reduction::kProd,   Reduction::kMax,
                                     Reduction::kMin,   Reduction::kAvg,    Reduction::kBitAnd,
                                     Reduction::kBitOr, Reduction::kBitXor, Reduction::kPreMulSum};

constexpr size_t kGuard = 128;
constexpr unsigned char kGuardByte = 0xa5;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dull;
  }

 private:
  uint64_t state_;
};

// Any bit pattern half of the time (NaN, infinities, subnormals, nonzero truths), numbers of moderate size otherwise.
Bytes random_elements(DataType type, size_t count, Random& random) {
  Bytes bytes(count * hostccl::element_size(type));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next() >> 32);
  const auto moderate = [&]() { return static_cast<double>(static_cast<int64_t>(random.next())) * 0x1p-60; };
  const auto mix = [&]<class T>(auto make, T) {
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      if (random.next() & 1) reference::put(bytes, i, static_cast<T>(make()));
    }
  };
  const auto code = [&](const reference::SmallFormat& f) {
    return [&] { return reference::encode(f, static_cast<float>(moderate())); };
  };
  switch (type) {
    case DataType::kFloat32:
    case DataType::kComplex64:
      mix(moderate, float{});
      break;
    case DataType::kFloat64:
    case DataType::kComplex128:
      mix(moderate, double{});
      break;
    case DataType::kFloat16:
      mix(code(reference::kFloat16), uint16_t{});
      break;
    case DataType::kBfloat16:
      mix(code(reference::kBfloat16), uint16_t{});
      break;
    case DataType::kFloat8e4m3:
      mix(code(reference::kFloat8e4m3), uint8_t{});
      break;
    case DataType::kFloat8e5m2:
      mix(code(reference::kFloat8e5m2), uint8_t{});
      break;
    case DataType::kBool:
      mix([] { return 0; }, uint8_t{});
      break;
    default:
      break;  // integers: all patterns are alike
  }
  return bytes;
}

// Room for `capacity` bytes at a chosen distance from a cache line's start: guard bytes before it, and behind it at most
// the rest of a cache line and then memory that is not mapped. So who reads too much is caught, too, in all widths.
class Buffer {
 public:
  explicit Buffer(size_t capacity)
      : pages_((capacity + 2 * kGuard + kPage - 1) / kPage),
        memory_(pages(pages_ + 1)),
        wall_(memory_ + pages_ * kPage) {
    CHECK_EQ(mprotect(wall_, kPage, PROT_NONE), 0);
  }
  ~Buffer() { munmap(memory_, (pages_ + 1) * kPage); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* place(size_t offset, size_t bytes) {
    const size_t from_line = offset % kLine;
    begin_ = wall_ - (from_line + bytes + kLine - 1) / kLine * kLine + from_line;
    end_ = begin_ + bytes;
    std::fill(begin_ - kGuard, wall_, kGuardByte);
    return begin_;
  }

  bool holds(const Bytes& want) const {
    const auto is_guard = [](unsigned char byte) { return byte == kGuardByte; };
    return std::equal(want.begin(), want.end(), begin_, end_) && std::all_of(begin_ - kGuard, begin_, is_guard) &&
           std::all_of(end_, wall_, is_guard);
  }

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kLine = 64;

  static unsigned char* pages(size_t count) {
    void* memory = mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return static_cast<unsigned char*>(memory);
  }

  const size_t pages_;
  unsigned char* const memory_;
  unsigned char* const wall_;
  unsigned char* begin_ = nullptr;
  unsigned char* end_ = nullptr;
};

enum class Alias { kNone, kOutFirst, kOutLast, kAlsoFirst, kAlsoLast };
enum class Also { kNone, kStored, kStreamed };

// Distances from a cache line, in bytes.
struct Layout {
  size_t out, also, input, input_step;
};

struct Case {
  DataType type;
  Reduction reduction;
  size_t count;
  const std::vector<Bytes>& inputs;
  const double* factors;
  const Bytes& want;
};

// Whether out, and also, are what they should be and nothing beside them was touched.
bool run(const Case& c, const Layout& layout, Alias alias, Also also) {
  static std::vector<std::unique_ptr<Buffer>> buffers;
  const size_t n = c.inputs.size(), bytes = c.want.size();
  while (buffers.size() < n + 2) buffers.push_back(std::make_unique<Buffer>(4097 * 16));
  std::vector<const void*> inputs;
  for (size_t j = 0; j < n; ++j) {
    unsigned char* at = buffers[j]->place((layout.input + j * layout.input_step) % kGuard, bytes);
    std::copy(c.inputs[j].begin(), c.inputs[j].end(), at);
    inputs.push_back(at);
  }
  size_t out_buffer = n, also_buffer = n + 1;
  void* out = buffers[n]->place(layout.out, bytes);
  void* second = buffers[n + 1]->place(layout.also, bytes);
  const auto take = [&](size_t j, size_t& buffer, void*& at) {
    buffer = j;
    at = const_cast<void*>(inputs[j]);
  };
  if (alias == Alias::kOutFirst) take(0, out_buffer, out);
  if (alias == Alias::kOutLast) take(n - 1, out_buffer, out);
  if (alias == Alias::kAlsoFirst) take(0, also_buffer, second);
  if (alias == Alias::kAlsoLast) take(n - 1, also_buffer, second);

  hostccl::reduce({.out = out,
                   .also = also == Also::kNone ? nullptr : second,
                   .inputs = inputs.data(),
                   .ninputs = static_cast<int>(n),
                   .count = c.count,
                   .type = c.type,
                   .reduction = c.reduction,
                   .factors = c.factors,
                   .stream_also = also == Also::kStreamed});

  for (size_t j = 0; j < n; ++j) {
    const bool written = j == out_buffer || (also != Also::kNone && j == also_buffer);
    if (!written && !buffers[j]->holds(c.inputs[j])) return false;
  }
  if (also == Also::kNone) return buffers[out_buffer]->holds(c.want);
  return buffers[out_buffer]->holds(c.want) && buffers[also_buffer]->holds(c.want);
}

std::string describe(const Case& c, const std::string& width, const Layout& layout, Alias alias, Also also) {
  std::string text = hostccl::type_name(c.type);
  text += std::string(" ") + hostccl::reduction_name(c.reduction) + " of " + std::to_string(c.inputs.size());
  text += " inputs, " + std::to_string(c.count) + " elements, " + width;
  text += ", out +" + std::to_string(layout.out) + ", also +" + std::to_string(layout.also);
  text += ", inputs +" + std::to_string(layout.input) + " +" + std::to_string(layout.input_step) + " each";
  text += ", alias " + std::to_string(static_cast<int>(alias)) + ", also " + std::to_string(static_cast<int>(also));
  return text;
}

void check_everywhere(const Case& c) {
  const size_t element = hostccl::element_size(c.type);
  const Layout layouts[] = {{0, 0, 0, 0}, {element, 0, 0, element}, {0, element, 3 * element, 0}, {1, 3, 5, 1}};
  for (const std::string& width : widths()) {
    hostccl::set_vector_width(width.c_str());
    for (const Layout& layout : layouts) {
      for (Alias alias : {Alias::kNone, Alias::kOutFirst, Alias::kOutLast, Alias::kAlsoFirst, Alias::kAlsoLast}) {
        for (Also also : {Also::kNone, Also::kStored, Also::kStreamed}) {
          if (!run(c, layout, alias, also)) CHECK_FAIL(describe(c, width, layout, alias, also));
        }
      }
    }
  }
}

void check_type(DataType type) {
  const double factors[] = {0.5, -3.0, 1.25, 7.0, -0.1, 100.0, 2.0};
  Random random(17 + type);
  for (Reduction reduction : kReductions) {
    if (!hostccl::supports(type, reduction)) continue;
    for (size_t n : {1, 2, 3, 4, 7}) {
      for (size_t count : {0, 1, 3, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
        std::vector<Bytes> inputs;
        for (size_t j = 0; j < n; ++j) inputs.push_back(random_elements(type, count, random));
        const Bytes want = reference::reduce(type, reduction, inputs, count, factors);
        check_everywhere({type, reduction, count, inputs, factors, want});
      }
    }
  }
}

// For every width: the bits of one reduction of aligned inputs.
void check_simple(DataType type, Reduction reduction, const std::vector<Bytes>& inputs, const double* factors) {
  const size_t count = inputs[0].size() / hostccl::element_size(type);
  const Bytes want = reference::reduce(type, reduction, inputs, count, factors);
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  for (const std::string& width : widths()) {
    hostccl::set_vector_width(width.c_str());
    Bytes out(want.size());
    hostccl::reduce({out.data(), nullptr, pointers.data(), static_cast<int>(inputs.size()), count, type, reduction,
                     factors, false});
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] != want[i]) {
        CHECK_FAIL(std::string(hostccl::type_name(type)) + " " + hostccl::reduction_name(reduction) + ", " + width +
                   ": byte " + std::to_string(i) + " is " + std::to_string(out[i]) + ", not " +
                   std::to_string(want[i]));
      }
    }
  }
}

Bytes every_code(DataType type) {
  Bytes bytes;
  if (hostccl::element_size(type) == 1) {
    for (int code = 0; code < 256; ++code) bytes.push_back(static_cast<unsigned char>(code));
  } else {
    bytes.resize(2 * 65536);
    for (size_t code = 0; code < 65536; ++code) reference::put(bytes, code, static_cast<uint16_t>(code));
  }
  return bytes;
}

constexpr DataType kSmallFloats[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                     DataType::kFloat8e5m2};

}  // namespace

TEST(reduce_int8) { check_type(DataType::kInt8); }
TEST(reduce_uint8) { check_type(DataType::kUint8); }
TEST(reduce_int16) { check_type(DataType::kInt16); }
TEST(reduce_uint16) { check_type(DataType::kUint16); }
TEST(reduce_int32) { check_type(DataType::kInt32); }
TEST(reduce_uint32) { check_type(DataType::kUint32); }
TEST(reduce_int64) { check_type(DataType::kInt64); }
TEST(reduce_uint64) { check_type(DataType::kUint64); }
TEST(reduce_float8_e4m3) { check_type(DataType::kFloat8e4m3); }
TEST(reduce_float8_e5m2) { check_type(DataType::kFloat8e5m2); }
TEST(reduce_float16) { check_type(DataType::kFloat16); }
TEST(reduce_bfloat16) { check_type(DataType::kBfloat16); }
TEST(reduce_float32) { check_type(DataType::kFloat32); }
TEST(reduce_float64) { check_type(DataType::kFloat64); }
TEST(reduce_complex64) { check_type(DataType::kComplex64); }
TEST(reduce_complex128) { check_type(DataType::kComplex128); }
TEST(reduce_bool) { check_type(DataType::kBool); }

// One input: what goes in comes out, but for NaN.
TEST(small_floats_survive_the_trip_through_float32) {
  for (DataType type : kSmallFloats) check_simple(type, Reduction::kSum, {every_code(type)}, nullptr);
}

// Products of one input and a factor reach every kind of float32 that has to be rounded: ties, subnormals, overflow.
TEST(small_floats_round_to_nearest_even) {
  std::vector<double> factors = {1.5,     1.25,     1.03125,       0x1.01p0, 0x1p-7,   0x1.8p-9, 0x1p-24,
                                 0x1.7p6, 0x1.fp14, -0x1.000002p0, 0x1p-126, 0x1p-140, 0x1p120,  1e38};
  Random random(5);
  for (int i = 0; i < 20; ++i) factors.push_back(static_cast<double>(random.next() >> 40) * 0x1p-20);
  for (DataType type : kSmallFloats) {
    const Bytes codes = every_code(type);
    for (double factor : factors) check_simple(type, Reduction::kPreMulSum, {codes}, &factor);
  }
}

TEST(small_floats_accumulate_in_float32) {
  for (DataType type : kSmallFloats) {
    Random random(7);
    std::vector<Bytes> inputs;
    for (int j = 0; j < 33; ++j) inputs.push_back(random_elements(type, 512, random));
    for (Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMax}) {
      check_simple(type, reduction, inputs, nullptr);
    }
  }
}

TEST(average_divides_by_more_inputs_than_the_type_can_count) {
  Random random(11);
  for (DataType type : {DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kInt64, DataType::kFloat32}) {
    std::vector<Bytes> inputs;
    for (int j = 0; j < 300; ++j) inputs.push_back(random_elements(type, 40, random));
    check_simple(type, Reduction::kAvg, inputs, nullptr);
  }
}

#if defined(__SSE2__)
TEST(flushing_subnormals_changes_no_conversion) {
  const unsigned before = _mm_getcsr();
  for (DataType type : {DataType::kFloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const Bytes codes = every_code(type);
    const size_t count = codes.size() / hostccl::element_size(type);
    const Bytes want = reference::reduce(type, Reduction::kSum, {codes}, count, nullptr);
    for (const std::string& width : widths()) {
      hostccl::set_vector_width(width.c_str());
      Bytes out(codes.size());
      const void* input = codes.data();
      _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
      hostccl::reduce({out.data(), nullptr, &input, 1, count, type, Reduction::kSum, nullptr, false});
      _mm_setcsr(before);
      CHECK(out == want);
    }
  }
}
#endif

TEST(copy_of_any_size_and_alignment) {
  constexpr size_t kLargest = 70000;
  Bytes bytes(kLargest);
  Random random(3);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.next() >> 32);
  Buffer source(kLargest), target(kLargest);
  for (const std::string& width : widths()) {
    hostccl::set_vector_width(width.c_str());
    for (auto copy : {hostccl::copy, hostccl::copy_streaming}) {
      for (size_t size : {0, 1, 2, 7, 8, 31, 63, 64, 65, 127, 128, 129, 191, 255, 256, 1000, 4096, 16384, 65543}) {
        const Bytes want(bytes.begin(), bytes.begin() + size);
        for (size_t from : {0, 1, 33, 63}) {
          unsigned char* const begin = source.place(from, size);
          std::copy(want.begin(), want.end(), begin);
          for (size_t to : {0, 1, 31, 63}) {
            copy(target.place(to, size), begin, size);
            CHECK(target.holds(want) && source.holds(want));
          }
        }
      }
    }
  }
}

CHECK_MAIN()
