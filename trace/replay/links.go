package replay

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// connect makes the player's connections. If one fails, it is tried again with the
// first call.
func (r *controller) connect(p *player) {
	for _, role := range p.Kind.Roles {
		if r.target(role) == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(r.ctx, r.Timeout)
		_, _ = r.linkOf(p, role).get(ctx, r.dialled) // its error is that of the first call
		cancel()
	}
}

// linkOf gives a player's link to a role, and makes it.
func (r *controller) linkOf(p *player, role string) *link {
	if p.links == nil {
		p.links = make([]*link, len(p.Kind.Roles))
	}
	k := &p.links[slices.Index(p.Kind.Roles, role)]
	if *k == nil {
		*k = r.newLinkOf(p, role)
	}
	return *k
}

func (r *controller) newLinkOf(p *player, role string) *link {
	to, at := r.target(role), p.Rank
	_, shares := to.(Sharer)
	if r.Share == 0 || shares {
		return newLink(to, Identity{Sender: p.Sender, Address: p.Address, Target: role})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	links := r.shared[role]
	for at %= r.Share; len(links) <= at; {
		links = append(links, newLink(to, Identity{Sender: fmt.Sprintf("shared-%d", len(links)), Target: role}))
	}
	r.shared[role] = links
	return links[at]
}

func (r *controller) dialled(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	observe(&r.dials, int64(took))
}

// hangUp closes all connections.
func (r *controller) hangUp() {
	for _, players := range r.players {
		for _, p := range players {
			p.hangUp()
		}
	}
}

func (p *player) hangUp() {
	for _, k := range p.links {
		if k != nil {
			k.close()
		}
	}
}
