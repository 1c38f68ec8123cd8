"""One-line mistakes in the CUDA kernels and their callers: (name, file, what stands there, what it becomes, suite).

The suite, PROGRAM:TEST, must notice the mistake in at least one build. What stands there must be in the file once.
"""
AXPY = 'i += index_stride()) y[i] = '
HALVES = 'threadIdx.x % 32 < 16 ? 0x0000FFFFu : 0xFFFF0000u'
V, C, M, P = (f'kernels/cuda/{name}.cu' for name in ('vector_ops', 'cast', 'modulo', 'pair'))
GRID = 'kernels/cuda/grid.cuh'
CODEC = 'compression/codec_cuda.cpp'
TRANSFER = 'kernels/transfer.cpp'
SUMS, AXPYS, COUNTS, BF16 = 'twins:Sums', 'twins:Axpy', 'twins:CountNonfiniteAndMaxAbs', 'twins:Bf16Cast'
ENCODE, APPLY, PAIR, VIEWS = 'twins:ModuloEncode', 'twins:ModuloApply', 'twins:PairApply', 'twins:Transfer'

MUTANTS = [
  # Barriers and shared memory.
  ('barrier missing', V, '    __syncthreads();\n', '', SUMS),
  ('barrier in a branch', V, '    __syncthreads();', '    if (threadIdx.x < 2 * step) __syncthreads();', SUMS),
  ('sum read by all threads', V, 'return threadIdx.x == 0 ? shared[0] : 0;', 'return shared[0];', SUMS),
  ('shared value not written where 0', V, '  shared[threadIdx.x] = value;',
   '  if (value != 0) shared[threadIdx.x] = value;', SUMS),
  ('reduction begins at a quarter', V, 'step = kThreads / 2;', 'step = kThreads / 4;', SUMS),
  ('reduction ends early', V, 'step > 0; step /= 2) {\n    __sync', 'step > 1; step /= 2) {\n    __sync', SUMS),
  ('reduction reads one too far', V, 'shared[threadIdx.x + step];', 'shared[threadIdx.x + step + 1];', SUMS),
  ('order-dependent sum', V, 'if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];',
   'if (step == 1 && threadIdx.x > 0) atomicAdd(&shared[0], shared[threadIdx.x]);', SUMS),
  ('every thread writes the partial sum', V, 'if (threadIdx.x == 0) partial[blockIdx.x] = sum;',
   'partial[blockIdx.x] = sum;', SUMS),
  ('two blocks write one partial sum', V, 'partial[blockIdx.x] = sum;', 'partial[blockIdx.x / 2] = sum;', SUMS),
  ('sum in float', V, 'double sum = 0;\n  for (size_t i', 'float sum = 0;\n  for (size_t i', SUMS),
  ('one partial sum too few', V, 'i < static_cast<unsigned>(partial_count)',
   'i + 1 < static_cast<unsigned>(partial_count)', SUMS),
  ('one partial sum too many', V, 'i < static_cast<unsigned>(partial_count)',
   'i <= static_cast<unsigned>(partial_count)', SUMS),
  ('partial sums past the first block skipped', V, 'i += blockDim.x) sum', 'i += 2 * blockDim.x) sum', SUMS),
  # Tails.
  ('axpy: one more', V, 'i < count; ' + AXPY, 'i <= count; ' + AXPY, AXPYS),
  ('axpy: one less', V, 'i < count; ' + AXPY, 'i + 1 < count; ' + AXPY, AXPYS),
  ('bf16: one more', C, 'i < count; i += index_stride()) {', 'i <= count; i += index_stride()) {', BF16),
  ('bf16: one less', C, 'i < count; i += index_stride()) {', 'i + 1 < count; i += index_stride()) {', BF16),
  ('max_abs: one less', C, 'i < count; i += index_stride()) largest', 'i + 1 < count; i += index_stride()) largest',
   COUNTS),
  ('modulo apply: one more', M, 'i < count; i += index_stride()) {\n    const int32_t',
   'i <= count; i += index_stride()) {\n    const int32_t', APPLY),
  ('modulo encode: one less', M, 'i < count; i += index_stride()) {\n    const float',
   'i + 1 < count; i += index_stride()) {\n    const float', ENCODE),
  ('pair: one less', P, 'i < count;', 'i + 1 < count;', PAIR),
  ('pair: one more', P, 'i < count;', 'i <= count;', PAIR),
  ('blocks rounded down', GRID, '(count + kThreads - 1) / kThreads', 'count / kThreads', AXPYS),
  ('stride of one block', GRID, 'return size_t{gridDim.x} * blockDim.x;', 'return blockDim.x;', AXPYS),
  ('index without the block', GRID, 'size_t{blockIdx.x} * blockDim.x + threadIdx.x', 'size_t{threadIdx.x}', AXPYS),
  ('a block of 33 threads', GRID, '#define STARLING_CUDA_THREADS 256', '#define STARLING_CUDA_THREADS 33', SUMS),
  # Warps.
  ('half a warp in the mask', GRID, 'value += __shfl_down_sync(0xFFFFFFFFu', 'value += __shfl_down_sync(0x0000FFFFu',
   ENCODE),
  ('two half masks', GRID, 'max(value, __shfl_down_sync(0xFFFFFFFFu', f'max(value, __shfl_down_sync({HALVES}', COUNTS),
  ('warp maximum begins at 8', GRID, 'step = 16; step > 0; step /= 2) value = max',
   'step = 8; step > 0; step /= 2) value = max', COUNTS),
  ('warp sum not taken', M, '  projection = warp_sum(projection);\n', '', ENCODE),
  ('warp sum in a branch', M, '  projection = warp_sum(projection);',
   '  if (projection != 0) projection = warp_sum(projection);', ENCODE),
  ('two lanes add the sum', M, 'if (first_in_warp()) {', 'if (first_in_warp() || threadIdx.x == 1) {', ENCODE),
  # Atomics.
  ('plain add for an atomic one', V, 'atomicAdd(result, static_cast<unsigned long long>(found))', '*result += found',
   COUNTS),
  ('plain add of projections', M, 'atomicAdd(&result->projection, projection);', 'result->projection += projection;',
   ENCODE),
  ('plain maximum for an atomic one', C, 'atomicMax(max_abs_bits, largest);\n}\n\n__device__',
   '*max_abs_bits = max(*max_abs_bits, largest);\n}\n\n__device__', COUNTS),
  # Arithmetic.
  ('bf16: FLT_MAX becomes infinite', C, 'min(rounded, 0x7F7Fu)', 'rounded', BF16),
  ('bf16: ties go up', C, ' + ((magnitude >> 16) & 1u)', '', BF16),
  ('bf16: a NaN becomes infinite', C, '? 0x40u : 0u', '? 0u : 0u', BF16),
  ('modulo: truncated', M, '__float2int_rn(__fmul_rn(value, scale))', 'static_cast<int>(value * scale)', ENCODE),
  ('modulo: fused', M, '__fadd_rn(x[i], __fmul_rn(factor, static_cast<float>(difference)))',
   'std::fma(factor, static_cast<float>(difference), x[i])', APPLY),
  ('modulo: shifts swapped', M, '(own[i], own_shift, peer[i], peer_shift)', '(own[i], peer_shift, peer[i], own_shift)',
   APPLY),
  ('modulo: wrong row', M, 'i / kModuloRow', 'i / (kModuloRow + 1)', ENCODE),
  ('pair: fused', P, '__fadd_rn(x[i], __fmul_rn(coefficient, difference))', 'std::fma(coefficient, difference, x[i])',
   PAIR),
  ('pair: sides swapped', P, '(value_of(peer[i]), value_of(own[i]))', '(value_of(own[i]), value_of(peer[i]))', PAIR),
  # The host's half.
  ('codec: apply does not wait', CODEC, 'pitch, x);\n    use.wait();', 'pitch, x);', 'codec:*'),
  ('codec: dense encode does not wait', CODEC, '    use.wait();\n    if (!out', '    if (!out', 'codec:*'),
  ('codec: modulo encode does not wait', CODEC, '      use.wait();\n      return', '      return', 'codec:*'),
  ('codec: result not cleared', CODEC,
   '    cuda::zero_async(device.result(), Slot::kResultBytes, use.stream());\n    if (kind_', '    if (kind_',
   'codec:*'),
  ('codec: half of the payloads copied', CODEC, 'copy_async(device, pinned, 2 * pitch',
   'copy_async(device, pinned, pitch', 'codec:*'),
  ('codec: room for one payload', CODEC, 'use.device(2 * pitch)', 'use.device(pitch)', 'codec:*'),
  ('copy does not wait', TRANSFER, 'stream.handle());\n  stream.wait();\n#else', 'stream.handle());\n#else', VIEWS),
  ('norm does not wait', TRANSFER, '  stream.wait();\n  return result;', '  return result;', VIEWS),
]
