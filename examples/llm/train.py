#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a tokenizer of bytes on some files, for the test of this folder: train.py TOKENIZER.json VOCABULARY FILE..."""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train(sys.argv[3:], trainers.BpeTrainer(vocab_size=int(sys.argv[2]), show_progress=False,
                                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.save(sys.argv[1])
