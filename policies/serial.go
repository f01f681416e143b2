package policies

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// sequence puts signed texts in force, none of which has a smaller serial number than one before it. It is used by one goroutine at a time.
type sequence struct {
	kept     *serials // nil is nowhere but here
	greatest int64    // of the texts that have been in force in this process
	unkept   text     // the text in force, while its number could not be kept
}

// swap has a text with a number put in force.
func (s *sequence) swap(ctx context.Context, given []byte, serial int64, swap func([]byte) error) error {
	sum := sha256.Sum256(given)
	if s.unkept.known && s.unkept.sum == sum {
		return s.keep(ctx, serial)
	}
	greatest := s.greatest
	if s.kept != nil {
		kept, err := s.kept.greatest(ctx)
		if err != nil {
			return passing{fmt.Errorf("the greatest serial number cannot be read: %w", err)}
		}
		greatest = max(greatest, kept)
	}
	if serial < greatest {
		return passing{fmt.Errorf("its serial number %d is smaller than %d, which has been in force: sign it again", serial, greatest)}
	}
	if err := swap(given); err != nil {
		return err
	}
	s.greatest = serial
	s.unkept = text{true, sum, nil}
	return s.keep(ctx, serial)
}

// keep stores the number of the text in force.
func (s *sequence) keep(ctx context.Context, serial int64) error {
	if s.kept != nil {
		if err := s.kept.raise(ctx, serial); err != nil {
			return passing{fmt.Errorf("it is in force, but its serial number cannot be kept: %w", err)}
		}
	}
	s.unkept = text{}
	return nil
}

// serials keep the greatest serial number of signed texts in Redis: the score of one member of a sorted set, which no ZADD with GT makes smaller.
type serials struct {
	client redis.Cmdable
	key    string
}

// member is the one member.
const member = "greatest"

// greatest returns the greatest number, or 0 if there is none.
func (s *serials) greatest(ctx context.Context) (int64, error) {
	score, err := s.client.ZScore(ctx, s.key, member).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err == nil && !(score >= 0 && score <= MostSerial) {
		err = fmt.Errorf("%v in %s is no serial number", score, s.key)
	}
	return int64(score), err
}

// raise makes the greatest number no smaller than one.
func (s *serials) raise(ctx context.Context, serial int64) error {
	return s.client.ZAddArgs(ctx, s.key, redis.ZAddArgs{GT: true, Members: []redis.Z{{Score: float64(serial), Member: member}}}).Err()
}
