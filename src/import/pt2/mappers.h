// The mappers of aten_map.cc's table, by the file that they are in. Each makes nodes for one ATen call; Call::argument()
// is the word that its row of the table gives.
#pragma once

#include "import/pt2/call.h"

namespace htpipe::pt2 {

// aten_math.cc
One binary(Call& call);
One reverse_subtract(Call& call);
One divide(Call& call);
One remainder(Call& call);
One fmod(Call& call);
One power(Call& call);
One compare(Call& call);
One bitwise(Call& call);
One bitwise_not(Call& call);
One logical(Call& call);
One logical_not(Call& call);
One unary(Call& call);
One round(Call& call);
One log_of_base(Call& call);
One formula(Call& call);
One is_special(Call& call);
One nan_to_num(Call& call);
One nan_extremum(Call& call);
One add_combined(Call& call);
One lerp(Call& call);
One logaddexp(Call& call);
One hypot(Call& call);

// aten_activation.cc
One neuron(Call& call);
One clamp(Call& call);
One gelu(Call& call);
One silu(Call& call);
One mish(Call& call);
One softplus(Call& call);
One log_sigmoid(Call& call);
Many log_sigmoid_many(Call& call);
One elu(Call& call);
One leaky_relu(Call& call);
Many leaky_relu_many(Call& call);
One prelu(Call& call);
One glu(Call& call);
One shrink(Call& call);

// aten_shape.cc
One identity(Call& call);
Many identity_many(Call& call);
One no_result(Call& call);
One dropout(Call& call);
Many dropout_many(Call& call);
One to_dtype(Call& call);
One reshape_as_declared(Call& call);
One permute_axes(Call& call);
One swap_axes(Call& call);
One reverse_axes(Call& call);
One move_axes(Call& call);
One expand(Call& call);
Many broadcast_tensors(Call& call);
One repeat(Call& call);
One repeat_interleave(Call& call);
One cat(Call& call);
One stack(Call& call);
One stack_along(Call& call);
One flip(Call& call);
One roll(Call& call);
One pixel_shuffle(Call& call);
One channel_shuffle(Call& call);
Many meshgrid(Call& call);

// aten_slice.cc
One slice(Call& call);
One narrow(Call& call);
One select_index(Call& call);
Many split(Call& call);
Many unbind(Call& call);
One as_strided(Call& call);
One scatter_part(Call& call);
One pad(Call& call);
One triangle(Call& call);
One diagonal(Call& call);
One unfold(Call& call);
One diff(Call& call);

// aten_index.cc
One index(Call& call);
One index_put(Call& call);
One index_select(Call& call);
One embedding(Call& call);
One take(Call& call);
One gather(Call& call);
One scatter(Call& call);
One index_rows(Call& call);
One masked_fill(Call& call);
One where(Call& call);
Many top_k(Call& call);
One one_hot(Call& call);
One bucketize(Call& call);

// aten_reduce.cc
One reduce(Call& call);
One mean(Call& call);
One any_all(Call& call);
One count_nonzero(Call& call);
Many aminmax(Call& call);
Many extremum_along(Call& call);
One arg_extremum(Call& call);
One variance(Call& call);
Many variance_mean(Call& call);
One vector_norm(Call& call);
One linalg_norm(Call& call);
One pairwise_distance(Call& call);
One logsumexp(Call& call);
One cumulative_sum(Call& call);
One cumulative_product(Call& call);
One softmax(Call& call);

// aten_matmul.cc
One matmul(Call& call);
One add_matmul(Call& call);
One linear(Call& call);
One outer(Call& call);
One einsum(Call& call);

// aten_norm.cc
One batch_norm(Call& call);
Many batch_norm_many(Call& call);
One instance_norm(Call& call);
One layer_norm(Call& call);
Many layer_norm_many(Call& call);
One rms_norm(Call& call);
Many rms_norm_many(Call& call);
One group_norm(Call& call);
Many group_norm_many(Call& call);
One weight_norm(Call& call);
Many weight_norm_many(Call& call);
One cosine_similarity(Call& call);

// aten_conv.cc
One convolution(Call& call);

// aten_pool.cc
One max_pool(Call& call);
Many max_pool_many(Call& call);
One avg_pool(Call& call);
One adaptive_pool(Call& call);
Many adaptive_pool_many(Call& call);
One resize(Call& call);
One grid_sample(Call& call);
One affine_grid(Call& call);

// aten_fold.cc
One im2col(Call& call);
One col2im(Call& call);

// aten_attention.cc
One attention(Call& call);
Many attention_many(Call& call);
Many recurrent(Call& call);

// aten_create.cc
One fill(Call& call);
One arange(Call& call);
One linspace(Call& call);
One eye(Call& call);
One triangle_indices(Call& call);
One copy(Call& call);

}  // namespace htpipe::pt2
