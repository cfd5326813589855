// The pieces (net.h) of a model of one's own, and what they cost.
#pragma once

#include <vector>

#include <torch/torch.h>

#include "muster/model/named_block.h"
#include "muster/model/net.h"
#include "muster/model/profile.h"

namespace muster::model {

// Each child of `net` is a piece with its name, and a block (block.h): it draws random numbers of its own. A child must
// take and give one tensor, first dimension samples, and must not write to what it takes. The pieces hold `net`.
std::vector<Piece> pieces_of(const torch::nn::Sequential& net);

// The same of modules of any model, in the order in which it computes them. Throws kInvalidInput for names that are
// empty or there twice, and modules that are no part of `net`.
std::vector<Piece> pieces_of(const torch::nn::Module& net, const std::vector<NamedBlock>& blocks);

// What `pieces` of `net` cost, by sending `batch` (a few samples as the model takes them) through them; else as
// profile_pieces() of profile.h.
std::vector<PieceProfile> profile_pieces(torch::nn::Module& net, const std::vector<Piece>& pieces,
                                         const torch::Tensor& batch);
// The same of measure_pieces() of profile.h.
std::vector<PieceMemory> measure_pieces(torch::nn::Module& net, const std::vector<Piece>& pieces,
                                        const torch::Tensor& batch);

}  // namespace muster::model
